# To be sourced: `start_server [PROGRAM]` starts a server of this build in `$work` and sets `url`. It ends with the script.

work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server"; wait "$server" || true; fi; rm -rf "$work"' EXIT

start_server() {
  local program=${1:-} ready
  if [ -z "$program" ]; then
    cargo build --locked
    program=${CARGO_TARGET_DIR:-target}/debug/windlass
  fi
  mkfifo "$work/ready"
  "$program" --json serve --listen 127.0.0.1:0 --data "$work/data" --log-level error >"$work/ready" &
  server=$!
  read -r ready <"$work/ready"
  url=$(sed 's/.*"url":"\([^"]*\)".*/\1/' <<<"$ready")
}
