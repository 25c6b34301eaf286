#!/bin/sh
# The walk-through for plugin authors in conformance/README.md, as it is written there, on installed headers, documents and programs alone.
# Arguments: the source, the build whose programs are installed, a directory to write to.
set -eu
source=$1 build=$2 work=$3/conformance_walk_through
prefix=$work/usr
rm -rf "$work"
mkdir -p "$work"
export CMAKE_GENERATOR=Ninja CMAKE_PREFIX_PATH=$prefix
{
  # Headers of the programs' kind: released ones or those of the day, which a released program refuses.
  cmake -S "$source" -B "$work/tree" -DQUERN_COMPONENTS=plugin-api -DQUERN_PARTIAL=ON -DQUERN_BUILD_TESTS=OFF \
    "-DQUERN_ABI_RELEASE=$(sed -n 's/^QUERN_ABI_RELEASE:BOOL=//p' "$build/CMakeCache.txt")"
  cmake --install "$work/tree" --prefix "$prefix" --component dev
  cmake --install "$build" --prefix "$prefix" --component runtime  # libquern1 has the helper that probes plugins
  cmake --install "$build" --prefix "$prefix" --component backend_cpu
  cmake --install "$build" --prefix "$prefix" --component conformance
} >"$work/install.log" 2>&1 || { cat "$work/install.log"; exit 1; }

sed -n '/^## For plugin authors/,/^## /p' "$source/conformance/README.md" | sed -n '/^```$/,/^```$/p' | sed '/^```$/d' |
  sed "s|/usr/|$prefix/|g" >"$work/steps.sh"
[ "$(grep -c '^quern-conformance ' "$work/steps.sh")" -ge 4 ] || { echo "the README has no walk-through"; exit 1; }
for page in README.md BOUNDS.md; do
  [ -s "$prefix/share/doc/quern-conformance/$page" ] || { echo "the suite is installed without its $page"; exit 1; }
done
cd "$work"
PATH=$prefix/bin:$PATH sh -eux steps.sh >"$work/steps.log" 2>&1 || { cat "$work/steps.log"; exit 1; }

# What the last step lists is not excluded for nothing, and what is not listed fails.
cd mine
if "$prefix/bin/quern-conformance" run --plugin build/libbackend_sample.so --op add --journal without.jsonl >"$work/without.log" 2>&1; then
  echo "without the list of exclusions the sample is green: nothing was mandatory"
  exit 1
fi
grep -q 'not supported, and mandatory' "$work/without.log" || { cat "$work/without.log"; exit 1; }
# The installed program finds what is installed beside it: plugins, and the broken ones, which are made of the CPU plugin.
"$prefix/bin/quern-conformance" selftest --mutant matmul_k_tail --mutant device_writes_past_end >"$work/selftest.log" 2>&1 ||
  { cat "$work/selftest.log"; exit 1; }
