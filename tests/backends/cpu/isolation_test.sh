#!/bin/sh
# Objects built for one instruction set define nothing that the linker could share with others: every global or weak symbol of
# theirs lies in quern::cpu::<isa>, but for the strong one that the others call.
# AddressSanitizer adds a name to each variable, __odr_asan.NAME; c++filt leaves it mangled.
# Usage: isolation_test.sh <isa> <entry> <object>..., where <entry> is a demangled symbol without its arguments.
set -eu
isa=$1
entry=$2
shift 2
shared=$(nm -C --defined-only "$@" | grep -E '^[0-9a-f]+ [A-Zuvw] ' | grep -v -E "quern::cpu::$isa::|__odr_asan\._ZN5quern3cpu${#isa}$isa" | grep -v -E "^[0-9a-f]+ T $entry\(" || true)
if [ -n "$shared" ]; then
  echo "symbols of the $isa objects that another object could be given:"
  echo "$shared"
  exit 1
fi
nm -C --defined-only "$@" | grep -q -E " [A-Z] $entry(\(|\$)"
