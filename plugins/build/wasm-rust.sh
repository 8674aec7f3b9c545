#!/usr/bin/env bash
# Makes a Rust compiler with the wasm32 standard libraries available on a machine whose rustup
# cannot add a target. Prints `export RUSTC=… WASM_LD=…` for the caller to eval.
#
#   eval "$(plugins/build/wasm-rust.sh)" && cargo build --release --target wasm32-unknown-unknown
#
# Order: rustup's own target if it is there or can be added; else Debian's rustc + libstd-rust-dev-wasm32
# from the `forky` suite, unpacked into a folder and run through its own loader (no chroot, ~2 GB, ~2 min).
set -euo pipefail
home="${WASM_RUST_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/pelton/wasm-rust}"
target="${1:-wasm32-unknown-unknown}"
say() { printf '%s\n' "$*" >&2; }

if [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
  say "rustup already has $target"; echo "export RUSTC=$(command -v rustc)"; exit 0
fi
if [ "${WASM_RUST_NO_RUSTUP:-}" = "" ] && command -v rustup >/dev/null && timeout 60 rustup target add "$target" >&2 2>/dev/null; then
  say "rustup added $target"; echo "export RUSTC=$(command -v rustc)"; exit 0
fi

if [ ! -x "$home/rustc" ]; then
  export DEBIAN_FRONTEND=noninteractive
  command -v debootstrap >/dev/null || { apt-get update -qq >&2; apt-get install -y -qq debootstrap >&2; }
  [ -e /usr/share/debootstrap/scripts/forky ] || ln -s sid /usr/share/debootstrap/scripts/forky
  root="$home/root"; mkdir -p "$home"
  [ -x "$root/usr/bin/apt-get" ] || debootstrap --variant=minbase --no-check-gpg forky "$root" >&2
  cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
  for f in /etc/apt/apt.conf.d/*; do cp -n "$f" "$root/etc/apt/apt.conf.d/" 2>/dev/null || true; done
  chroot "$root" apt-get install -y -qq --no-install-recommends rustc libstd-rust-dev-wasm32 lld >&2
  cat > "$home/rustc" <<RUSTC
#!/bin/sh
exec "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/rustc" --sysroot "$root/usr" "\$@"
RUSTC
  chmod +x "$home/rustc"
  cat > "$home/wasm-ld" <<LD
#!/bin/sh
exec "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "\$(readlink -f "$root/usr/bin/wasm-ld")" -flavor wasm "\$@"
LD
  chmod +x "$home/wasm-ld"
fi
say "$("$home/rustc" --version)"
echo "export RUSTC=$home/rustc WASM_LD=$home/wasm-ld CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_LINKER=$home/wasm-ld"
