#!/usr/bin/env bash
# Installs what the build and the tests need and this machine lacks, and says what it does. Debian and its kin.
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }

if ! command -v cargo >/dev/null; then
  say "Rust is missing: install it with rustup (https://rustup.rs), then run this again"; exit 1
fi
need="1.95"
have="$(rustc --version | cut -d' ' -f2)"
if [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -1)" != "$need" ]; then
  say "rustc $have is too old, $need is needed: run 'rustup update stable'"; exit 1
fi

# package: what shows that it is there
missing=()
want() { # want PACKAGE TEST…
  local package="$1"; shift
  if ! "$@" >/dev/null 2>&1; then missing+=("$package"); fi
}
header() { for dir in /usr/include /usr/include/x86_64-linux-gnu /usr/include/aarch64-linux-gnu; do [ -e "$dir/$1" ] && return 0; done; return 1; }
libclang() { ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1 && ls /usr/lib/llvm-*/lib/clang/*/include/stddef.h >/dev/null 2>&1; }
jdk() { command -v javac && javac -version 2>&1 | grep -qE ' (1[7-9]|[2-9][0-9])'; }
want build-essential sh -c 'command -v cc && command -v c++ && command -v make'
want clang libclang            # bindgen reads RocksDB's header
want libclang-dev libclang
want cmake command -v cmake    # librdkafka
want pkg-config command -v pkg-config
want libssl-dev header openssl/ssl.h
want zlib1g-dev header zlib.h
want python3 command -v python3
want default-jdk-headless jdk  # the Kafka broker of the tests
want maven command -v mvn

if [ "${#missing[@]}" -eq 0 ]; then say "everything is here"; exit 0; fi
say "missing: ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  say "this is no Debian: install these (or what they are called here) by hand, then run this again"; exit 1
fi
as_root=(); if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
say "installing them with apt-get"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
say "done"
