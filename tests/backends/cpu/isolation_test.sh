#!/bin/sh
# Objects built for one instruction set define nothing that the linker could share with others: every global or weak symbol of
# theirs lies in quern::cpu::<isa>. Usage: isolation_test.sh <isa> <object>...
set -eu
isa=$1
shift
shared=$(nm -C --defined-only "$@" | grep -E '^[0-9a-f]+ [A-Zuvw] ' | grep -v "quern::cpu::$isa::" || true)
if [ -n "$shared" ]; then
  echo "symbols of the $isa objects that another object could be given:"
  echo "$shared"
  exit 1
fi
nm -C --defined-only "$@" | grep -q "quern::cpu::$isa::vectors"
