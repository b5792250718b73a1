//! The page in headless Chromium: it requests nothing from any host, and its only script runs under the
//! page's own policy.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use linerate_testing::skip;

/// The browser; the test is skipped where there is none.
fn chromium() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&paths)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        skip("chromium", "no chromium on the path (apt install chromium)");
    }
    found
}

/// The result of loading a page in Chromium: the document after its scripts ran, and every address that the
/// page requested.
struct Visit {
    document: String,
    requests: Vec<String>,
}

fn visit(browser: &Path, directory: &Path, html: &str) -> Visit {
    let (page, log) = (directory.join("page.html"), directory.join("net.json"));
    std::fs::write(&page, html).expect("the page is written");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--no-first-run"])
        // Chromium has errands of its own; none of them may leave this machine, and the log keeps to the
        // page's.
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromium starts");
    let output = child.stdout.take().expect("its output is a pipe");
    let document = document(output);
    end(&mut child);
    Visit { document, requests: requests(&std::fs::read_to_string(&log).expect("a net log is written")) }
}

/// The output until the end of the document, or of a minute.
fn document(output: impl std::io::Read + Send + 'static) -> String {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.send(line)));
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut document = String::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        document += &line;
        if line.ends_with("</html>") {
            break;
        }
    }
    document
}

/// Waits until the browser has ended, or ends it.
fn end(child: &mut Child) {
    for _ in 0..100 {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().expect("the browser can be ended");
    child.wait().expect("an ended browser is waited for");
}

/// The addresses of all requests that a page made. Requests of the browser itself have no initiator.
fn requests(log: &str) -> Vec<String> {
    // A browser that was ended leaves its log without the closing brackets.
    let events: Vec<serde_json::Value> = log
        .lines()
        .filter_map(|line| {
            serde_json::from_str(line.trim_end().trim_end_matches(']').trim_end_matches(',')).ok()
        })
        .collect();
    let begun = events.iter().filter_map(|event| {
        let params = event.get("params")?;
        let from_page = params.get("initiator").is_some_and(|initiator| initiator != "not an origin");
        Some(params.get("url")?.as_str()?.to_owned()).filter(|_| from_page)
    });
    begun
        .filter(|url| !url.starts_with("data:") && !url.starts_with("file:") && !url.starts_with("blob:"))
        .collect()
}

/// A port of this machine that answers one request with nothing. The check of the log sends its request to
/// this port.
fn closed_door() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port of the loopback");
    let port = listener.local_addr().expect("it has an address").port();
    std::thread::spawn(move || {
        if let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
            let _ =
                stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    port
}

#[test]
fn chromium_asks_no_host_for_anything() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    // The control: a page that does ask is seen to ask.
    let address = format!("http://127.0.0.1:{}/x.png", closed_door());
    let control = visit(&browser, directory.path(), &format!("<!doctype html><img src=\"{address}\">"));
    assert!(control.requests.contains(&address), "the log shows a page's requests: {:?}", control.requests);

    let record = common::studies::web(5);
    let page = visit(&browser, directory.path(), &linerate_report::html(&record));
    assert_eq!(page.requests, Vec::<String>::new());
    assert!(page.document.contains(&record.title), "the page was shown");
    assert!(page.document.contains("<li hidden") ^ page.document.contains("<li><button"), "its script ran");
    assert!(page.document.contains("<li><button"), "its own policy lets its script run");
}

#[test]
fn a_figure_becomes_a_png_and_nothing_else_may_run() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let html = linerate_report::html(&common::studies::ladder(5));
    // The file isn't saved, but told: a download would keep the browser busy.
    let click = "<script>HTMLAnchorElement.prototype.click = function () { document.body.title = this.href.slice(0, 22) };\
                 document.querySelector('button.png').click()</script></body>";
    let smuggled = visit(&browser, directory.path(), &html.replace("</body>", click));
    assert!(!smuggled.document.contains("data:image/png;base64,\""), "no script but the page's own runs");

    // Without the policy, the same click makes the file.
    let open = html.replace("script-src 'sha256-", "script-src 'unsafe-inline' 'x-");
    let clicked = visit(&browser, directory.path(), &open.replace("</body>", click));
    assert!(clicked.document.contains("<body title=\"data:image/png;base64,\""), "{:.200}", clicked.document);
}
