//! A real server: nginx, run as this user on loopback, with its own configuration.

use crate::support::{any, crowd, ms, url};
use linerate_load::http::Crowd;
use linerate_load::window::StopFlag;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const SIZE: usize = 512_000;

/// An nginx that ends when this value is dropped.
struct Nginx {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Nginx {
    fn start() -> Option<Self> {
        let program = linerate_testing::program_path("nginx")?;
        let dir = tempfile::tempdir().unwrap();
        let address = TcpListener::bind(any()).unwrap().local_addr().unwrap();
        fs::write(dir.path().join("object"), vec![7; SIZE]).unwrap();
        fs::write(dir.path().join("nginx.conf"), configuration(dir.path(), address)).unwrap();
        // nginx gives its workers another user when root starts it.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut child = Command::new(program)
            .arg("-c")
            .arg(dir.path().join("nginx.conf"))
            .args(["-e", "stderr"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed().as_secs() < 10, "nginx isn't ready: {:?}", child.try_wait());
            std::thread::sleep(ms(20));
        }
        Some(Self { child, address, _dir: dir })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn configuration(dir: &Path, address: SocketAddr) -> String {
    let dir = dir.display();
    format!(
        "daemon off; pid {dir}/pid; worker_processes 1;
         events {{ worker_connections 1024; }}
         http {{
           access_log off; sendfile on; default_type application/octet-stream;
           client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
           uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
           keepalive_requests 20;
           server {{ listen {address}; root {dir}; location /old {{ return 302 /object; }} }}
         }}"
    )
}

#[test]
fn nginx_serves_users_without_a_failure() {
    let Some(nginx) = Nginx::start() else { return };
    let kept = crowd(vec![url(nginx.address, "/object")], 10);
    assert_eq!(kept.probe(&StopFlag::default()).unwrap(), SIZE as u64);
    for crowd in [kept.clone(), Crowd { new_connections: true, ..kept }] {
        let tally = crowd.run(&StopFlag::default()).unwrap();
        let port = &tally.connections[0];
        assert!(tally.latency.count() > 10 && tally.errors.is_none() && port.failed == 0, "{tally:?}");
        // At the end a user may be about to connect.
        assert!(port.attempted - port.made <= 10 && port.made >= 10, "{tally:?}");
        let payload = tally.counts.payload.abs_diff(tally.latency.count() * SIZE as u64);
        assert!(payload <= 10 * SIZE as u64, "{tally:?}");
    }
    let moved =
        crowd(vec![url(nginx.address, "/old")], 1).probe(&StopFlag::default()).unwrap_err().to_string();
    assert!(moved.contains("302") && moved.contains("/object"), "{moved}");
    let gone =
        crowd(vec![url(nginx.address, "/none")], 1).probe(&StopFlag::default()).unwrap_err().to_string();
    assert!(gone.contains("404"), "{gone}");
}
