//! `--version`, and `-VV`: the program's capabilities as JSON.

use serde_json::{Value, json};

use super::table::{Does, RsyncOption};

/// The text of `--version`. Its first words are the same as rsync's, because scripts search for them.
pub fn shown() -> String {
    format!(
        "rsync  version 3.5.0  protocol version 32 (its options, by linerate {})",
        env!("CARGO_PKG_VERSION")
    )
}

/// The capabilities as a JSON object with rsync's keys. A capability is true if linerate supports its option.
pub fn as_json() -> Value {
    json!({
        "program": "linerate rsync",
        "version": "3.5.0",
        "linerate": env!("CARGO_PKG_VERSION"),
        "capabilities": {
            "file_bits": 64, "inum_bits": 64, "timestamp_bits": 64, "long_int_bits": 64,
            "socketpairs": true, "symlinks": true, "symtimes": true, "hardlinks": true,
            "hardlink_specials": true, "hardlink_symlinks": true, "IPv6": true,
            "atimes": has("atimes"), "batchfiles": has("write-batch"), "inplace": has("inplace"),
            "append": has("append"), "ACLs": has("acls"), "ACL_at": true, "xattrs": has("xattrs"),
            "secluded_args": "default", "iconv": has("iconv"), "prealloc": has("preallocate"),
            "stop_at": has("stop-at"), "crtimes": has("crtimes"),
        },
        "checksum_list": ["xxh128", "xxh3", "xxh64", "md5", "md4", "sha1", "blake3", "none"],
        "compress_list": if has("compress") { json!(["zstd", "none"]) } else { json!(["none"]) },
        "daemon_auth_list": [],
    })
}

/// True if the option has the same effect as with rsync.
fn has(name: &str) -> bool {
    RsyncOption::of(name).is_some_and(|(option, _)| matches!(option.does, Does::Flag(_) | Does::Value(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_follows_its_option() {
        let capabilities = &as_json()["capabilities"];
        assert_eq!((&capabilities["ACLs"], &capabilities["crtimes"]), (&json!(true), &json!(false)));
    }
}
