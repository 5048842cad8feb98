# Lists the recipes.
default:
    @just --list

# Everything CI runs.
ci:
    .ci/run

# All tests.
test:
    cargo test --workspace

# A real browser follows a stream, and pages of others try to read the server: installs Chromium if it can.
browser-test:
    node tests/browser/event_source.mjs
    node tests/browser/other_pages.mjs

# Clients generated from the OpenAPI document, in Python and TypeScript, talk to a server.
openapi-clients:
    tests/openapi/run

# Schemathesis sends what the OpenAPI document allows, and what it does not: so many requests of each kind per call.
schemathesis examples="100":
    tests/openapi/schemathesis {{examples}}

# The server, on its default port.
serve *args:
    cargo run -- serve {{args}}

# The protobuf schema and the reference pages, written anew from the code.
docs:
    UPDATE_DOCS=1 cargo test -p windlass-api -p windlass-server -p windlass-cli

# Lints and formatting.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# One simulated run, with its trace.
sim seed:
    cargo run -p windlass-sim --bin windlass-sim -- --seed {{seed}}

# Many simulated runs.
sims count="1000":
    cargo run --release -p windlass-sim --bin windlass-sim -- --seeds {{count}}

# Real servers killed under load, so many in each of the tests: one store, several, a full disk (as root).
kills count="1000":
    WINDLASS_KILLS={{count}} cargo test --release -p windlass-cli --test it killed_ -- --nocapture

# Real disks (loop-mounted ext4, as root) whose power is cut under load: one, several at once, full ones.
power-cuts count="1000":
    WINDLASS_POWER_CUTS={{count}} cargo test --release -p windlass-cli --test it power_cut -- --nocapture

# What the server takes up before, during and after an attack with so many MiB of bodies that grow when decoded.
attack mib="240":
    WINDLASS_ATTACK_MIB={{mib}} cargo test --release -p windlass-cli --test it amplification -- --nocapture

# What a request costs, counted: context switches, syncs, writes, allocations, instructions. Fails beyond bench/budget.toml.
budget:
    bench/budget

# Benchmarks of the engine in process: cycles, backlog, memory, churn.
bench *args:
    cargo bench -p windlass-engine -- {{args}}

# Benchmark of the server over HTTP.
bench-http *args:
    cargo run --release -- bench {{args}}

# Windlass beside Redis, RabbitMQ, PostgreSQL, NATS and beanstalkd, on one disk, in turns.
bench-peers *args:
    bench/compare {{args}}
