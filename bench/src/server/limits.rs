//! How many files a process may have open, which its children inherit.

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process as far as it may be raised: done before servers are started.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _stays_as_it_is = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Fails unless `files` files may be open at once.
pub(crate) fn allow_files(files: usize) -> Result<()> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < files as u64 => {
            bail!("{files} files must be open at once, and the limit is {limit}: raise it with ulimit -Hn")
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_files_than_the_limit_is_an_error_that_names_it() {
        raise();
        assert!(allow_files(3).is_ok());
        if let Some(limit) = getrlimit(Resource::Nofile).current {
            assert!(allow_files(limit as usize + 1).unwrap_err().to_string().contains(&limit.to_string()));
        }
    }
}
