#!/bin/sh
# The program's exit codes, resume, crash and hang attribution. Arguments: program, a directory to write to.
program=$1
out=$2/conformance_program
mkdir -p "$out"
failures=0

expect() {  # expect CODE NAME COMMAND...
  wanted=$1 name=$2
  shift 2
  "$@" >"$out/stdout" 2>"$out/stderr"
  found=$?
  if [ "$found" -ne "$wanted" ]; then
    echo "$name: exit code $found, expected $wanted"
    cat "$out/stdout" "$out/stderr"
    failures=$((failures + 1))
  fi
}
run="$program run --backend cpu --journal $out/journal.jsonl"

expect 0 "a group runs" $run --group activation --jobs 2
lines=$(grep -c '"end"' "$out/journal.jsonl")
begins=$(grep -c '"begin"' "$out/journal.jsonl")
[ "$lines" -gt 0 ] && [ "$lines" -eq "$begins" ] || { echo "the journal has $begins begins and $lines ends"; failures=$((failures + 1)); }
expect 0 "a finished journal is resumed without running" $run --group activation --resume
[ "$(grep -c '"begin"' "$out/journal.jsonl")" -eq "$begins" ] || { echo "resume ran cases again"; failures=$((failures + 1)); }
expect 2 "a journal of other cases is not resumed" $run --group norm --resume
expect 2 "a filter that matches nothing" $run --filter 'zzzz*'
expect 2 "an unknown option" $program run --nonsense
expect 2 "no verb" $program
expect 3 "an unknown backend" $program run --backend nosuch --journal "$out/journal.jsonl"
expect 3 "an unknown device" $program run --device cpu:9 --journal "$out/journal.jsonl"
expect 7 "nothing to execute" $run --filter 'matmul.*' --group copy
expect 0 "list" $program list --op silu
exit $failures
