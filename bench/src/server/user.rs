//! Another user for servers that refuse to run as root.

use std::path::Path;

use anyhow::{Context, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// The user to run a server as that refuses root; none if this process is not root's.
    pub(crate) fn instead_of_root() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let user = find(&users, "postgres").or_else(|| find(&users, "nobody"));
        Ok(Some(user.context("there is neither a user `postgres` nor `nobody`: make one of them")?))
    }

    pub(crate) fn give(self, path: &Path) -> Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot give {} to another user", path.display()))
    }
}

fn find(passwd: &str, name: &str) -> Option<User> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:9:9::/:/bin/sh\npostgres:x:106:113::/:/bin/sh\n";
        assert_eq!(find(passwd, "postgres"), Some(User { uid: 106, gid: 113 }));
        assert_eq!(find(passwd, "post"), None);
    }
}
