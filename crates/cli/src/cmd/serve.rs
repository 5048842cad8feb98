//! `windlass serve`: the server.

use std::thread;

use clap::Args;
use serde::Serialize;
use windlass_engine::env::runtime;
use windlass_server::lifecycle::{self, Server, StartError};
use windlass_server::telemetry;

use crate::config_flags::ConfigFlags;
use crate::exit::{Exit, Failure};
use crate::output::{Output, last_words};

/// Run the server
#[derive(Debug, Args)]
#[command(after_help = "\
One line on stdout says that it is ready; its log goes to stderr. SIGTERM or SIGINT ends it in good order, a \
second one at once. Flags win over WINDLASS_* variables, and these over the file.

Examples:
  windlass serve
  windlass serve --data /var/lib/windlass --listen 127.0.0.1:9463
  windlass serve --config /etc/windlass.toml --log-format json")]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: ConfigFlags,
    /// Make the directory of this store belong to this server, whichever server it belonged to; may be given several times
    ///
    /// For one start after the first store of a server was lost for good: its other stores would be refused. The
    /// partitions of a store that was taken over are unclaimed until they are adopted. Refused while another server has
    /// the directory open, and if the directory holds the registry of another server.
    #[arg(long, value_name = "NAME")]
    take_over_store: Vec<String>,
    /// For tests: segments of 256 KiB, which are filled, compacted and used again within seconds
    #[arg(long, hide = true)]
    small_segments: bool,
}

#[derive(Debug, Serialize)]
struct Ready {
    version: &'static str,
    url: String,
    data: String,
}

impl Serve {
    /// Says itself why the server failed: a server ends with its status also while nobody reads stderr.
    pub(crate) fn run(self, out: Output) -> Exit {
        self.serve(out).unwrap_or_else(|failure| {
            let exit = failure.exit;
            last_words(move || out.failure(&failure));
            exit
        })
    }

    fn serve(self, out: Output) -> Result<Exit, Failure> {
        let config = self.flags.load()?.take_over(self.take_over_store);
        let mut config = config.map_err(|error| Failure::usage(error.to_string()))?;
        config.small_segments = self.small_segments;
        let log = telemetry::init(&config).map_err(|error| Failure::local(error.to_string()))?;
        let data = config.data.display().to_string();
        let threads = config.threads();
        let ready = move |server: &Server| {
            let ready = Ready {
                version: env!("CARGO_PKG_VERSION"),
                url: format!("http://{}", server.address()),
                data,
            };
            // Lines of the start are read before the line that says that the server is ready.
            log.flush();
            // On a thread of its own: a full pipe on stdout must not keep the server from hearing SIGTERM.
            thread::spawn(move || {
                let _nobody_listens = out.reply(&ready, |_| ready.shown());
            });
        };
        let ended = runtime::run(threads, lifecycle::run(config, ready));
        let ended = ended.map_err(|error| Failure::local(format!("cannot start threads: {error}")))?;
        ended.map_err(|error| failure(&error))?;
        Ok(Exit::Done)
    }
}

impl Ready {
    fn shown(&self) -> String {
        format!("windlass {} is ready on {}, data in {}\n", self.version, self.url, self.data)
    }
}

fn failure(error: &StartError) -> Failure {
    let damaged = matches!(error, StartError::Store(error) if error.is_damage());
    Failure::new(if damaged { Exit::Damaged } else { Exit::Refused }, error.to_string())
}
