#!/bin/sh
# The program's exit codes, resume, crash and hang attribution, the columns of the matrix. Arguments: program, a directory to write to, the
# plugins cpu and sample, a plugin whose devices are software, the broken plugin of a device.
program=$1
out=$2/conformance_program
cpu=$3 sample=$4 software=$5 mutant_device=$6
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
expect 2 "a misspelt flag" $run --fitler x
grep -q 'did you mean --filter?' "$out/stderr" || { echo "--fitler: $(cat "$out/stderr")"; failures=$((failures + 1)); }
expect 2 "a misspelt verb" "$program" rnu
grep -q 'did you mean run?' "$out/stderr" || { echo "rnu: $(cat "$out/stderr")"; failures=$((failures + 1)); }
expect 0 "a finished journal is resumed without running" $run --group activation --resume
[ "$(grep -c '"begin"' "$out/journal.jsonl")" -eq "$begins" ] || { echo "resume ran cases again"; failures=$((failures + 1)); }
expect 0 "kernels of a journal" $program kernels --journal "$out/journal.jsonl"
grep -q 'silu\.' "$out/stdout" || $program kernels --verbose --journal "$out/journal.jsonl" | grep -q 'silu\.' || { echo "kernels does not name silu"; failures=$((failures + 1)); }
sed '1s#"path":"[^"]*"#"path":"/none/libbackend_cpu.so"#' "$out/journal.jsonl" >"$out/moved.jsonl"
expect 2 "kernels of a plugin whose file is gone" $program kernels --journal "$out/moved.jsonl"
expect 0 "a graph under each family of kernels" $run --profile full --filter 'kernels.composite.rope_kv_write.q4_k.rows17.every_kernel'
grep -q '"kernel":"[^"]*rope_kv_write\.portable' "$out/journal.jsonl" || { echo "no fused kernel was reached by forcing its family"; failures=$((failures + 1)); }
expect 0 "the group again" $run --group activation --jobs 2
expect 2 "kernels of no journal" $program kernels --journal "$out/none.jsonl"
expect 2 "a journal of other cases is not resumed" $run --group norm --resume
expect 2 "a filter that matches nothing" $run --filter 'zzzz*'
expect 2 "an unknown option" $program run --nonsense
expect 2 "no verb" $program
expect 3 "an unknown backend" $program run --backend nosuch --journal "$out/journal.jsonl"
cp "$0" "$out/libbackend_text.so"
expect 3 "a plugin that is none" $program run --plugin "$out/libbackend_text.so" --journal "$out/journal.jsonl"
grep -q 'text.so: .*ELF' "$out/stderr" || { echo "nothing says why the file is no plugin"; cat "$out/stderr"; failures=$((failures + 1)); }
expect 2 "a plugin that is not there" $program run --plugin "$out/libbackend_none.so" --journal "$out/journal.jsonl"
expect 2 "a plugin by another name" $program run --plugin "$0" --journal "$out/journal.jsonl"
expect 3 "an unknown device" $program run --device cpu:9 --journal "$out/journal.jsonl"
expect 7 "nothing to execute" $run --filter 'matmul.*' --group copy
expect 0 "list" $program list --op silu
expect 0 "the version" $program --version
expect 0 "variables instead of options" env QUERN_CONFORMANCE_OP=silu QUERN_CONFORMANCE_JOURNAL="$out/twins.jsonl" $program run --backend cpu --jobs 2
[ "$(grep -c '"end"' "$out/twins.jsonl")" -eq "$($program list --op silu 2>/dev/null | wc -l)" ] || { echo "a variable chose other cases than its option"; failures=$((failures + 1)); }
expect 0 "a journal goes on without the variables that began it" $program run --backend cpu --op silu --journal "$out/twins.jsonl" --resume
# The audit: the same seed gives the same audit; what a device of its own cannot do is marked; a plugin without models is none.
audit="$program audit --models 2 --seed 20261126"
expect 0 "the audit of a good plugin" $audit --backend cpu
cp "$out/stdout" "$out/audit.txt"
grep -q 'cpu:0 .*: 2 of 2 models as f64 has them, in sessions of a program named' "$out/audit.txt" || { echo "the audit: $(cat "$out/audit.txt")"; failures=$((failures + 1)); }
expect 0 "an audit with the seed that it printed" $program audit --backend cpu --models 2 --seed "$(sed -n 's/^seed \([0-9]*\);.*/\1/p' "$out/audit.txt")"
cmp -s "$out/stdout" "$out/audit.txt" || { echo "one seed gives two audits: $(diff "$out/stdout" "$out/audit.txt")"; failures=$((failures + 1)); }
expect 0 "the audit of a card whose work the host does" env QUERN_MUTANT_BASE="$cpu" QUERN_MUTANT_NAME=card $audit --models 1 --plugin "$mutant_device"
grep -q "mutant_device:0: ON THE HOST'S PROCESSORS: its process took " "$out/stdout" || { echo "nothing marks the work of the host: $(cat "$out/stdout")"; failures=$((failures + 1)); }
expect 0 "the audit of the same as a processor" env QUERN_MUTANT_BASE="$cpu" QUERN_MUTANT_NAME=none $audit --models 1 --plugin "$mutant_device"
grep -q "ON THE HOST" "$out/stdout" && { echo "a processor is marked: $(cat "$out/stdout")"; failures=$((failures + 1)); }
expect 7 "the audit of a plugin that runs no model" $audit --plugin "$sample"
grep -q 'sample:0  .* exact unsupported: .*no device computes' "$out/stdout" || { echo "the reason is not told: $(cat "$out/stdout")"; failures=$((failures + 1)); }
expect 2 "an audit with an option for plugins" $audit --backend cpu --option a=b
expect 3 "an audit of nothing" $audit --backend nosuch
expect 2 "a variable with a bad value" env QUERN_CONFORMANCE_LEVEL=5 $program list
grep -q 'QUERN_CONFORMANCE_LEVEL: 5 is not 1 to 4' "$out/stderr" || { echo "the variable is not named"; cat "$out/stderr"; failures=$((failures + 1)); }

# A fault of the suite itself, or of what it stands on.
expect 2 "a journal that is no file" $program run --backend cpu --op silu --journal /dev/full
expect 70 "a journal without room" sh -c "ulimit -f 1; exec $program run --backend cpu --op silu --journal '$out/full.jsonl'"
expect 70 "no descriptors for a process" sh -c "ulimit -n 12; exec $run --op silu"

# Memory that the host does not have, or may not give: no pass.
large=copy.copy.f16.2147483665.plain.packed.exponents
expect 7 "a case that does not fit" $run --profile huge --filter $large --memory 1024
grep -q '"status":"resource".*--memory allows 1024 MiB' "$out/journal.jsonl" || { echo "no resource result"; failures=$((failures + 1)); }
grep -q 'resource 1' "$out/stdout" || { echo "the table does not count what did not fit"; cat "$out/stdout"; failures=$((failures + 1)); }

# Parts of the whole: each case in one of them.
parts=0
for part in 1 2 3; do
  expect 0 "part $part" $run --op silu --shard $part/3
  parts=$((parts + $(grep -c '"end"' "$out/journal.jsonl")))
  expect 0 "part $part is verified as such" $program verify "$out/journal.jsonl" --op silu --shard $part/3
  expect 7 "a part is not the whole" $program verify "$out/journal.jsonl" --op silu
done
[ "$parts" -eq "$($program list --op silu 2>/dev/null | wc -l)" ] || { echo "the parts have $parts cases"; failures=$((failures + 1)); }
expect 2 "a part that there is not" $run --op silu --shard 4/3

# Lists of exclusions: about one backend, and about cases that there are.
printf 'never silu.nothing* a word too much\n' >"$out/list.txt"
expect 2 "an exclusion that matches no case" $run --op silu --exclusions "$out/list.txt"
grep -q "list.txt, line 1: 'silu.nothing\*' matches no case" "$out/stderr" || { echo "nothing names the line"; cat "$out/stderr"; failures=$((failures + 1)); }

# A call without a choice: one column for each plugin and device, the software ones left out and named.
rm -rf "$out/plugins"
mkdir -p "$out/plugins"
ln -s "$cpu" "$sample" "$software" "$out/plugins"
all="env QUERN_BACKEND_PATH=$out/plugins $program run --journal $out/all.jsonl"
expect 7 "every plugin, of which one does not support all" $all --op rms_norm
grep -q 'cpu:0.*sample:0' "$out/stdout" || { echo "no column for each plugin"; cat "$out/stdout"; failures=$((failures + 1)); }
grep -q 'raster:0 .*raster:0$' "$out/stdout" || { echo "the software device is not named"; cat "$out/stdout"; failures=$((failures + 1)); }
expect 7 "a software device that is named is tested" $all --op rms_norm --device raster:0
grep -q 'raster:0' "$out/stdout" || { echo "the software device has no column"; failures=$((failures + 1)); }
# One card that two backends serve has a column for each of them that is asked for; one that cannot be used is no column that is missing.
rm -rf "$out/one_card"
mkdir -p "$out/one_card"
ln -s "$(dirname "$software")/libbackend_cuda.so" "$(dirname "$software")/libbackend_vulkan.so" "$cpu" "$out/one_card"
both="env QUERN_BACKEND_PATH=$out/one_card $program run --op silu --journal $out/one_card.jsonl"
expect 7 "two backends of one card" $both --backend cuda,vulkan
grep -q '^group .*cuda:0.*vulkan:0' "$out/stdout" || { echo "no column for a backend that was asked for"; cat "$out/stdout"; failures=$((failures + 1)); }
expect 3 "one of the backends is not there" $both --backend cpu,sample

printf 'never activation.silu.* none\n' >"$out/list.txt"
expect 2 "one list for two backends" $all --op rms_norm --exclusions "$out/list.txt"
expect 2 "a journal of other plugins is not resumed" $all --op silu --backend cpu --resume

# A device process that dies is a crash of the case that was open, and the others go on in a new one.
$run --profile full --group norm --jobs 1 >"$out/stdout" 2>"$out/stderr" &
parent=$!
while [ "$(grep -c '"end"' "$out/journal.jsonl")" -lt 20 ] || ! pkill -KILL -P $parent -f device-process; do
  kill -0 $parent 2>/dev/null || break
done
wait $parent
[ $? -eq 7 ] || { echo "a crash did not fail the run"; failures=$((failures + 1)); }
crashes=$(grep -c '"status":"crash"' "$out/journal.jsonl")
passes=$(grep -c '"status":"pass"' "$out/journal.jsonl")
all=$("$program" list --profile full --group norm 2>/dev/null | wc -l)
[ "$crashes" -eq 1 ] && [ $((crashes + passes)) -eq "$all" ] ||
  { echo "$crashes crashes and $passes passes of $all cases"; failures=$((failures + 1)); }
exit $failures
