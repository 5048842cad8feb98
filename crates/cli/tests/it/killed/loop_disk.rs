//! A real ext4 file system on a loop device, whose power can be cut: the kernel is told to shut the file system down at
//! once, without flushing its journal (`EXT4_IOC_SHUTDOWN`), so that everything unsynced is lost.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`. Perl makes the call, because it is on every Debian machine and
/// this project has no unsafe code.
const SHUT_DOWN: &str = r#"
    use Fcntl;
    sysopen(my $directory, $ARGV[0], O_RDONLY) or die "open: $!";
    my $flags = pack("L", 2);
    defined(ioctl($directory, 0x8004587d, $flags)) or die "ioctl: $!";
"#;
const BALLAST: &str = "ballast";

#[derive(Debug)]
pub(super) struct LoopDisk {
    device: String,
    /// Holds the image and the mount point.
    home: TempDir,
}

impl LoopDisk {
    /// An error says why there can be none here.
    pub(super) fn make(bytes: u64) -> Result<Self, String> {
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let image = home.path().join("image");
        std::fs::create_dir(home.path().join("disk")).map_err(|error| error.to_string())?;
        let file = std::fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(bytes).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image))?;
        let device = run(Command::new("losetup").args(["--find", "--show"]).arg(&image))?;
        let disk = Self { device: device.trim().to_owned(), home };
        disk.mount()?;
        Ok(disk)
    }

    pub(super) fn mount_point(&self) -> PathBuf {
        self.home.path().join("disk")
    }

    fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").arg(&self.device).arg(self.mount_point())).map(drop)
    }

    pub(super) fn cut_power(&self) {
        run(Command::new("perl").args(["-e", SHUT_DOWN]).arg(self.mount_point())).expect("power can be cut");
    }

    /// Mounts the disk as after a reboot: the journal is replayed. The ballast is removed.
    pub(super) fn mount_again(&self) {
        run(Command::new("umount").arg(self.mount_point())).expect("nobody uses the disk any more");
        self.mount().expect("the disk can be mounted after a power cut");
        let _may_not_be_there = std::fs::remove_file(self.mount_point().join(BALLAST));
    }

    /// Takes up all room but so many bytes with ballast.
    pub(super) fn fill(&self, bytes_left: u64) {
        let at = self.mount_point();
        let free =
            run(Command::new("stat").args(["-f", "--format", "%a %S"]).arg(&at)).expect("it is mounted");
        let mut numbers = free.split_whitespace().map(|number| number.parse::<u64>().expect("a number"));
        let free = numbers.next().expect("blocks") * numbers.next().expect("their size");
        let taken = free.saturating_sub(bytes_left);
        if taken > 0 {
            OpenOptions::new().create(true).append(true).open(at.join(BALLAST)).expect("an empty file fits");
            let length = taken.to_string();
            // Fails where the server was quicker to take the room: then the disk is as full as it should be.
            let _nearly_full = run(Command::new("fallocate").args(["-l", &length]).arg(at.join(BALLAST)));
        }
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _best_effort = run(Command::new("umount").arg("--lazy").arg(self.mount_point()));
        let _best_effort = run(Command::new("losetup").arg("--detach").arg(&self.device));
    }
}

/// The output of the command, or why it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
