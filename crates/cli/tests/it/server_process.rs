//! `windlass serve` for tests that call it while it runs, and that are about its end. Gone with whoever started it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;
use windlass_client::{Client, Encoding, Retries};

use crate::full_pipe::FullPipe;
use crate::world::windlass;

/// Only against hanging: nothing is expected to take anything like this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    url: String,
}

impl ServerProcess {
    /// Returns once it is ready.
    pub(crate) async fn start(data: &Path) -> Self {
        Self::start_with(data, &[]).await
    }

    /// With further flags of `windlass serve`.
    pub(crate) async fn start_with(data: &Path, flags: &[OsString]) -> Self {
        Self::ready(serve(data).args(["--log-level", "warn"]).args(flags)).await
    }

    /// With the server's log in a pipe.
    pub(crate) async fn start_piped(data: &Path, flags: &[OsString]) -> (Self, ChildStderr) {
        let mut server = Self::ready(serve(data).args(flags).stderr(Stdio::piped())).await;
        let log = server.child.stderr.take().expect("piped");
        (server, log)
    }

    /// With stdout and stderr in a pipe that nobody reads: that the server is ready is known by its answer.
    pub(crate) async fn start_unheard(
        data: &Path,
        address: SocketAddr,
        full: &FullPipe,
        flags: &[OsString],
    ) -> Self {
        let mut command = Command::from(windlass());
        command.arg("serve").arg(format!("--listen={address}")).arg("--data").arg(data).args(flags);
        command.stdin(Stdio::null()).stdout(full.stdio()).stderr(full.stdio()).kill_on_drop(true);
        let server =
            Self { child: command.spawn().expect("the program starts"), url: format!("http://{address}") };
        let retries = Retries { total_max: PATIENCE, ..Retries::default() };
        let client = Client::builder(&server.url).retries(retries).build().expect("a good address");
        // Calls are refused until the data is loaded, and sent again until then.
        client.queues().await.expect("the server answers");
        server
    }

    async fn ready(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.expect("it says something in time");
        let line = line.expect("the pipe can be read").expect("it lives long enough to be ready");
        let ready: serde_json::Value = serde_json::from_str(&line).expect("one line says that it is ready");
        let url = ready["url"].as_str().expect("it says where").to_owned();
        Self { child, url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// As `IP:PORT`.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").expect("it speaks HTTP")
    }

    /// One that tries everything once.
    pub(crate) fn client(&self) -> Client {
        client(&self.url, Encoding::default())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("nobody has waited for it yet")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("the number of a process");
        kill_process(pid, signal).expect("our own child can be told");
    }

    /// Its end, which somebody has brought about.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        let ended = timeout(PATIENCE, self.child.wait()).await.expect("it ends in time");
        ended.expect("our own child can be waited for")
    }

    /// Without a warning.
    pub(crate) async fn kill(self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }
}

fn serve(data: &Path) -> Command {
    let mut command = Command::from(windlass());
    command.args(["--json", "serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// One that tries everything once.
pub(crate) fn client(url: &str, encoding: Encoding) -> Client {
    Client::builder(url).encoding(encoding).retries(Retries::NONE).build().expect("a good address")
}

/// The metrics page at one moment.
#[derive(Debug)]
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) async fn of(client: &Client) -> Self {
        Self(client.metrics().await.expect("the page is shown"))
    }

    /// All values of that name, or of those of its labels that begin so, together: 0 if there is none.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        let is_it = |rest: &&str| name.contains('{') || rest.starts_with([' ', '{']);
        let rests = self.0.lines().filter_map(|line| line.strip_prefix(name)).filter(is_it);
        let values = rests.map(|rest| rest.rsplit(' ').next().expect("split gives at least one"));
        values.map(|value| value.parse::<f64>().expect("a number") as u64).sum()
    }
}
