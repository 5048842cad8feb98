use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_core::time::Span;
use windlass_engine::store::log::Durability;
use windlass_server::config::{
    self, Config, ConfigError, KEYS, LogFormat, Raw, RawConfig, RawLimits, Source,
};

type Variables<'a> = &'a [(&'a str, &'a str)];

fn load(flags: RawConfig, file: Option<&Path>, variables: Variables<'_>) -> Result<Config, ConfigError> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    config::load(flags, file.map(PathBuf::from), variables.iter().map(owned))
}

fn load_file(text: &str) -> Result<Config, ConfigError> {
    let (_directory, path) = file_with(text);
    load(RawConfig::default(), Some(&path), &[])
}

fn file_with(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("windlass.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

fn source<'a>(config: &'a Config, key: &str) -> &'a Source {
    config.source(KEYS.iter().find(|found| found.name == key).unwrap())
}

fn values(toml: &str) -> Vec<&str> {
    toml.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}

#[test]
fn without_any_source_everything_has_its_default() {
    let config = load(RawConfig::default(), None, &[]).unwrap();
    assert_eq!(config.data, Path::new("./windlass-data"));
    assert_eq!(config.backup_dir, Path::new("./windlass-data-backups"));
    assert_eq!(config.listen, "127.0.0.1:9463".parse().unwrap());
    assert!(!config.insecure);
    let gate = &config.gate;
    assert_eq!((gate.is_loopback, &gate.public_url), (true, &None));
    assert_eq!((gate.allowed_hosts.len(), gate.allowed_origins.len(), gate.trusted_proxies.len()), (0, 0, 0));
    assert_eq!(config.durability, Durability::Always);
    assert_eq!((config.log_format, config.log_level.as_str()), (LogFormat::Text, "info"));
    assert_eq!(config.shutdown_grace, Duration::from_secs(30));
    assert_eq!(config.threads, None);
    assert!(config.threads() >= NonZeroUsize::MIN);
    assert_eq!((config.limits.connections, config.limits.waiting_requests), (16_384, 16_384));
    assert_eq!((config.limits.payload_bytes, config.limits.body_bytes), (1 << 20, 16 << 20));
    assert_eq!(config.limits.bytes_in_flight, 256 << 20);
    assert_eq!((config.limits.queues, config.limits.partitions), (100_000, 100_000));
    assert_eq!(config.limits.memory, None);
    assert!(KEYS.iter().all(|key| *config.source(key) == Source::Default));
}

#[test]
fn flags_win_over_variables_and_these_over_the_file() {
    let (_directory, path) = file_with(
        "data = 'from-file'\nlog_level = 'warn'\nlog_format = 'json'\n[limits]\nconnections = 1\nwaiting_requests = 2",
    );
    let variables = [
        ("WINDLASS_DATA", "from-variable"),
        ("WINDLASS_LOG_LEVEL", "debug"),
        ("WINDLASS_LIMITS_CONNECTIONS", "3"),
    ];
    let flags = RawConfig { data: Some("from-flag".into()), ..RawConfig::default() };
    let config = load(flags, Some(&path), &variables).unwrap();

    assert_eq!(config.data, Path::new("from-flag"));
    assert_eq!(*source(&config, "data"), Source::Flag("--data".to_owned()));
    assert_eq!(config.log_level, "debug");
    assert_eq!(*source(&config, "log_level"), Source::Environment("WINDLASS_LOG_LEVEL".to_owned()));
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(*source(&config, "log_format"), Source::File(path.clone()));
    assert_eq!(config.limits.connections, 3);
    assert_eq!(
        *source(&config, "limits.connections"),
        Source::Environment("WINDLASS_LIMITS_CONNECTIONS".to_owned())
    );
    assert_eq!(config.limits.waiting_requests, 2);
    assert_eq!(*source(&config, "listen"), Source::Default);
    assert_eq!(config.backup_dir, Path::new("from-flag-backups"));
}

#[test]
fn every_setting_can_be_given_as_a_variable() {
    for key in KEYS {
        let value = match key.name {
            "backup_dir" => "elsewhere",
            _ => key.default,
        };
        let mut variables = vec![(key.variable(), value.to_owned())];
        if key.name == "sync_interval" {
            variables.push(("WINDLASS_DURABILITY".to_owned(), "interval".to_owned()));
        }
        let config = config::load(RawConfig::default(), None, variables.into_iter()).unwrap();
        assert_eq!(*config.source(key), Source::Environment(key.variable()), "{}", key.name);
    }
}

#[test]
fn a_flag_names_the_file_before_a_variable_does() {
    let (_one, by_flag) = file_with("data = 'by-flag'");
    let (_two, by_variable) = file_with("data = 'by-variable'");
    let variables =
        [("WINDLASS_CONFIG", by_variable.to_str().unwrap()), ("WINDLASS_URL", "http://elsewhere")];
    let data = |file| load(RawConfig::default(), file, &variables).unwrap().data;
    assert_eq!(data(None), Path::new("by-variable"));
    assert_eq!(data(Some(by_flag.as_path())), Path::new("by-flag"));
}

#[test]
fn an_interval_belongs_to_the_durability_that_has_one() {
    let durability = |text: &str| load_file(text).unwrap().durability;
    assert_eq!(durability("durability = 'none'"), Durability::None);
    assert_eq!(durability("durability = 'interval'"), Durability::Interval(Span::from_millis(100)));
    assert_eq!(
        durability("durability = 'interval'\nsync_interval = '1s500ms'"),
        Durability::Interval(Span::from_millis(1500))
    );
}

#[test]
fn sizes_are_numbers_or_have_units() {
    let body = |value: Raw| {
        let limits = RawLimits {
            body_bytes: Some(value),
            bytes_in_flight: Some("1GiB".into()),
            ..RawLimits::default()
        };
        load(RawConfig { limits, ..RawConfig::default() }, None, &[]).unwrap().limits.body_bytes
    };
    assert_eq!(body(2_000_000.into()), 2_000_000);
    assert_eq!(body("2000000".into()), 2_000_000);
    assert_eq!(body("2000000B".into()), 2_000_000);
    assert_eq!(body("2MB".into()), 2_000_000);
    assert_eq!(body("2 MiB".into()), 2 << 20);
    assert_eq!(body("1200KB".into()), 1_200_000);
    assert_eq!(body("2048KiB".into()), 2 << 20);
    assert_eq!(body("1GB".into()), 1_000_000_000);
    assert_eq!(body("1GiB".into()), 1 << 30);
}

#[test]
fn a_mistake_in_a_file_is_answered_with_what_is_right() {
    // The setting and its value, and what the message must say beside them.
    let mistakes = [
        ("data = ''", "a directory"),
        ("data = 3", "a directory"),
        ("listen = 'localhost:9463'", "IP:PORT"),
        ("listen = '127.0.0.1'", "IP:PORT"),
        ("listen = 9463", "IP:PORT"),
        ("insecure = 'yes'", "`true` or `false`"),
        ("durability = 'sometimes'", "`always`, `interval` or `none`"),
        ("sync_interval = '100'", "such as `100ms`"),
        ("sync_interval = '0s'", "from `1ms` to `1m`"),
        ("log_format = 'xml'", "`text` or `json`"),
        ("log_level = ''", "`info`"),
        ("log_level = 'info,=,'", "`info`"),
        ("shutdown_grace = 30", "such as `30s`"),
        ("shutdown_grace = '2h'", "up to `1h`"),
        ("threads = 0", "from 1 to 1000, or `auto`"),
        ("threads = 'all'", "from 1 to 1000, or `auto`"),
        ("limits.connections = 0", "from 1 to 1000000"),
        ("limits.connections = -1", "from 1 to 1000000"),
        ("limits.connections = '16k'", "from 1 to 1000000"),
        ("limits.waiting_requests = true", "from 1 to 1000000"),
        ("limits.payload_bytes = '16MiB'", "to `15MiB`"),
        ("limits.payload_bytes = '1 mib'", "such as `1MiB`"),
        ("limits.body_bytes = '-1'", "such as `16MiB`"),
        ("limits.body_bytes = '99999999999999999999'", "such as `16MiB`"),
        ("limits.bytes_in_flight = '18446744073709551615GiB'", "such as `256MiB`"),
        ("limits.queues = 0", "from 1 to 1000000"),
        ("limits.partitions = 1000001", "from 1 to 1000000"),
        ("limits.memory = '1MiB'", "from `64MiB`"),
        ("limits.memory = false", "or `off`"),
        ("listen = ['127.0.0.1:1']", "IP:PORT"),
        ("insecure = ['true']", "`true` or `false`"),
        ("limits.queues = ['1']", "from 1 to 1000000"),
        ("limits.body_bytes = ['1MiB']", "such as `16MiB`"),
        ("allowed_hosts = true", "as a list"),
        ("public_url = 'queue.example'", "such as `https://queue.example`"),
        ("public_url = 'https://queue.example/path'", "without a path"),
        ("public_url = 'ftp://queue.example'", "such as `https://queue.example`"),
        ("public_url = ['https://queue.example']", "such as `https://queue.example`"),
    ];
    for (line, right) in mistakes {
        let (_directory, path) = file_with(line);
        let error = load(RawConfig::default(), Some(&path), &[]).unwrap_err();
        assert!(matches!(error, ConfigError::Wrong { .. }), "{line}: {error}");
        let (said, shown) = (error.to_string(), line.replace('\'', "\""));
        assert!(said.starts_with(&format!("{shown} (file {}) cannot be: give ", path.display())), "{said}");
        assert!(said.contains(right), "{said}");
    }
}

#[test]
fn a_file_that_says_nothing_known_is_refused_with_the_line() {
    for (text, right) in [
        ("lisen = '127.0.0.1:1'", "unknown field `lisen`"),
        ("[limits]\nconections = 1", "unknown field `conections`"),
        ("[limit]\nconnections = 1", "unknown field `limit`"),
        ("listen = 1.5", "a text in quotes, a whole number, true, false or a list of texts"),
        ("allowed_hosts = ['a', 1]", "expected a string"),
        ("limits = 3", "limits"),
        ("listen = ", "listen"),
    ] {
        let (_directory, path) = file_with(text);
        let said = load(RawConfig::default(), Some(&path), &[]).unwrap_err().to_string();
        assert!(said.contains(path.to_str().unwrap()) && said.contains("line "), "{said}");
        assert!(said.contains(right), "{said}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named_with_who_named_it() {
    let variables = [("WINDLASS_CONFIG", "/nowhere/windlass.toml")];
    let said = load(RawConfig::default(), None, &variables).unwrap_err().to_string();
    assert!(said.contains("/nowhere/windlass.toml (environment WINDLASS_CONFIG)"), "{said}");
    let said = load(RawConfig::default(), Some(Path::new("/nowhere/at-all")), &[]).unwrap_err().to_string();
    assert!(said.contains("/nowhere/at-all (flag --config)"), "{said}");
}

#[test]
fn a_variable_that_nobody_reads_is_told_and_does_no_harm() {
    let config = load(RawConfig::default(), None, &[("WINDLASS_LISTN", "x"), ("PATH", "x")]).unwrap();
    assert_eq!(config.ignored_variables, ["WINDLASS_LISTN"]);
}

#[test]
fn a_wrong_flag_or_variable_is_told_as_such() {
    let flags = RawConfig { listen: Some("here".into()), ..RawConfig::default() };
    let said = load(flags, None, &[]).unwrap_err().to_string();
    assert!(said.starts_with("listen = \"here\" (flag --listen) cannot be"), "{said}");
    let said = load(RawConfig::default(), None, &[("WINDLASS_LIMITS_PAYLOAD_BYTES", "huge")])
        .unwrap_err()
        .to_string();
    assert!(
        said.starts_with(
            "limits.payload_bytes = \"huge\" (environment WINDLASS_LIMITS_PAYLOAD_BYTES) cannot be"
        ),
        "{said}"
    );
}

#[test]
fn an_address_that_others_can_reach_needs_consent() {
    for address in ["0.0.0.0:9463", "[::]:9463", "192.168.1.2:80", "[::ffff:10.0.0.1]:80"] {
        let flags = RawConfig { listen: Some(address.into()), ..RawConfig::default() };
        let error = load(flags.clone(), None, &[]).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, ConfigError::NotLoopback(_)), "{said}");
        for part in [
            address,
            "--listen",
            "no authentication",
            "127.0.0.1:9463",
            "--insecure",
            "WINDLASS_INSECURE=true",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let config = load(RawConfig { insecure: Some(true.into()), ..flags }, None, &[]).unwrap();
        assert_eq!(config.listen, address.parse().unwrap());
    }
    for address in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:9463", "[::ffff:127.0.0.1]:80"] {
        load(RawConfig { listen: Some(address.into()), ..RawConfig::default() }, None, &[]).unwrap();
    }
}

#[test]
fn a_list_is_written_as_one_in_a_file_and_with_commas_elsewhere() {
    let (_directory, path) = file_with("allowed_hosts = ['Queue.Example.', '*.internal', 'fd00::1']");
    let shown = |variables: Variables<'_>, flags: RawConfig| {
        let config = load(flags, Some(&path), variables).unwrap();
        config.gate.allowed_hosts.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[], RawConfig::default()), ["queue.example", "*.internal", "[fd00::1]"]);
    assert_eq!(shown(&[("WINDLASS_ALLOWED_HOSTS", "a, b")], RawConfig::default()), ["a", "b"]);
    assert_eq!(shown(&[("WINDLASS_ALLOWED_HOSTS", "")], RawConfig::default()), [""; 0]);
    let flags = RawConfig { allowed_hosts: Some("c".into()), ..RawConfig::default() };
    assert_eq!(shown(&[("WINDLASS_ALLOWED_HOSTS", "a, b")], flags), ["c"]);
}

#[test]
fn a_wrong_entry_of_a_list_is_named() {
    for (line, entry, right) in [
        (
            "allowed_hosts = ['queue.example', 'queue.example:80']",
            "queue.example:80",
            "without scheme and port",
        ),
        ("allowed_hosts = ['http://queue.example']", "http://queue.example", "such as `queue.example`"),
        ("allowed_hosts = ['*']", "*", "`*.example.com`"),
        ("allowed_hosts = 'a,,b'", "", "`*.example.com`"),
        ("allowed_origins = ['https://app.example', '*']", "*", "such as `https://app.example`"),
        ("allowed_origins = ['null']", "null", "neither `*` nor `null`"),
        ("allowed_origins = ['app.example']", "app.example", "SCHEME://HOST"),
        ("allowed_origins = ['https://app.example/path']", "https://app.example/path", "SCHEME://HOST:PORT"),
        ("trusted_proxies = ['10.0.0.1/8']", "10.0.0.1/8", "no bits set after the prefix"),
        ("trusted_proxies = ['proxy.example']", "proxy.example", "addresses or networks"),
    ] {
        let said = load_file(line).unwrap_err().to_string();
        assert!(said.contains(&format!("because of the entry \"{entry}\": give ")), "{said}");
        assert!(said.starts_with(line.split(' ').next().unwrap()) && said.contains("(file "), "{said}");
        assert!(said.contains(right), "{said}");
    }
}

#[test]
fn a_mapped_loopback_address_is_loopback_to_the_gate() {
    for (address, insecure) in
        [("127.0.0.1:0", false), ("[::ffff:127.0.0.1]:80", false), ("0.0.0.0:80", true)]
    {
        let flags = RawConfig {
            listen: Some(address.into()),
            insecure: Some(insecure.into()),
            ..RawConfig::default()
        };
        assert_eq!(load(flags, None, &[]).unwrap().gate.is_loopback, !insecure, "{address}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused_together() {
    for (text, parts) in [
        ("sync_interval = '1s'", ["sync_interval = \"1s\" (file", "durability = \"always\" (default)"]),
        (
            "limits.payload_bytes = '2MiB'\nlimits.body_bytes = '1MiB'",
            ["limits.payload_bytes = \"2MiB\" (file", "raise limits.body_bytes"],
        ),
        (
            "limits.body_bytes = '512MiB'",
            ["limits.body_bytes = \"512MiB\" (file", "limits.bytes_in_flight = \"256MiB\" (default)"],
        ),
    ] {
        let said = load_file(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn what_is_shown_is_a_file_that_says_the_same() {
    let strange = "data = \"a \\\"quoted\\\" \\\\ directory\\n\"\nlisten = '[::]:1'\ninsecure = true\n\
        public_url = 'HTTPS://Queue.Example:443/'\nallowed_hosts = ['*.a', 'B.', '[::1]']\n\
        allowed_origins = 'https://app.example,http://localhost:3000/'\n\
        trusted_proxies = ['10.0.0.0/8', '::1']\ndurability = 'interval'\nsync_interval = '1s5ms'\nbackup_dir = 'b'\nlog_format = 'json'\n\
        log_level = 'info,windlass_engine=debug'\nshutdown_grace = '0s'\nthreads = 3\n[limits]\nconnections = 7\n\
        waiting_requests = 8\npayload_bytes = 1025\nbody_bytes = '3KB'\nbytes_in_flight = '5MiB'\n\
        queues = 9\npartitions = 10\nmemory = '65MiB'";
    for text in ["", "durability = 'none'", strange] {
        let config = load_file(text).unwrap();
        let shown = config.to_toml();
        let again = load_file(&shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
        assert_eq!(values(&shown), values(&again.to_toml()));
        assert_eq!(config.data, again.data);
    }
}

#[test]
fn what_is_shown_tells_where_each_value_came_from() {
    let flags = RawConfig { listen: Some("127.0.0.1:1".into()), ..RawConfig::default() };
    let shown = load(flags, None, &[("WINDLASS_LOG_LEVEL", "warn")]).unwrap().to_toml();
    for lines in [
        "# From: default\nallowed_hosts = []",
        "# From: default\n# public_url = \"\"",
        "# From: flag --listen\nlisten = \"127.0.0.1:1\"",
        "# From: environment WINDLASS_LOG_LEVEL\nlog_level = \"warn\"",
        "# From: default\ndata = \"./windlass-data\"",
        "# From: default\n# sync_interval = \"100ms\"",
        "# From: default\nbytes_in_flight = \"256MiB\"",
    ] {
        assert!(shown.contains(lines), "{lines}\n{shown}");
    }
}

#[test]
fn backups_within_the_directory_of_a_store_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::create_dir(at("real")).unwrap();
    std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
    let text = |data: &str, second: &str, backups: &str| {
        format!(
            "data = '{}'\nbackup_dir = '{}'\n[[stores]]\nname = 'second'\ndata = '{}'\n",
            at(data),
            at(backups),
            at(second)
        )
    };
    for (data, second, backups, store) in [
        ("data", "second", "data", "default"),
        ("data", "second", "data/backups", "default"),
        ("data", "second", "other/../data/backups", "default"),
        ("data", "second", "second/deep/backups", "second"),
        ("link", "second", "real/backups", "default"),
        ("real", "second", "link/backups", "default"),
    ] {
        let error = load_file(&text(data, second, backups)).unwrap_err().to_string();
        assert!(error.contains(&format!("`{store}`")) && error.contains("`backup_dir`"), "{error}");
    }
    for backups in ["data-backups", "backups/data"] {
        assert!(load_file(&text("data", "second", backups)).is_ok(), "{backups}");
    }
}

#[test]
fn the_default_directory_of_backups_is_beside_the_data_whatever_that_is_called() {
    for (data, name) in [("data/", "data-backups"), ("some/data", "data-backups")] {
        let flags = RawConfig { data: Some(data.into()), ..RawConfig::default() };
        let config = load(flags, None, &[]).unwrap();
        assert_eq!(config.backup_dir, Path::new(data).with_file_name(name));
    }
    let here = std::env::current_dir().unwrap();
    let flags = RawConfig { data: Some(".".into()), ..RawConfig::default() };
    let expected = format!("{}-backups", here.canonicalize().unwrap().display());
    assert_eq!(load(flags, None, &[]).unwrap().backup_dir, Path::new(&expected));
}

#[test]
fn further_stores_are_named_in_a_file_and_shown_again() {
    let config = load_file(
        "data = \"d\"\n[[stores]]\nname = \"a\"\ndata = \"one\"\n[[stores]]\nname = \"b\"\ndata = \"two\"\n",
    )
    .unwrap();
    let named: Vec<_> =
        config.stores.iter().map(|store| (store.name.as_str(), store.data.as_path())).collect();
    assert_eq!(named, [("a", Path::new("one")), ("b", Path::new("two"))]);
    assert_eq!(load_file(&config.to_toml()).unwrap().stores, config.stores);
}

#[test]
fn stores_that_cannot_be_are_refused_by_name() {
    let one = |name: &str, data: &str| format!("[[stores]]\nname = \"{name}\"\ndata = \"{data}\"\n");
    let twice = |first: (&str, &str), second: (&str, &str)| one(first.0, first.1) + &one(second.0, second.1);
    let table = [
        (one("default", "one"), "another store"),
        (one("a/b", "one"), "1 to 128"),
        (one("a", ""), "directory"),
        (one("a", "./windlass-data"), "no other store"),
        (twice(("a", "one"), ("a", "two")), "another store"),
        (twice(("a", "one"), ("b", "one")), "no other store"),
        ("[[stores]]\nname = \"a\"\n".to_owned(), "data"),
        ("[[stores]]\nname = \"a\"\ndata = \"one\"\nsize = 1\n".to_owned(), "size"),
    ];
    for (text, mention) in table {
        let error = load_file(&text).unwrap_err().to_string();
        assert!(error.contains(mention), "{text}: {error}");
    }
}
