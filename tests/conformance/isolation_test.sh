#!/bin/sh
# What a plugin does to its process is the fault of the case that was open, and the other cases run. Arguments: program, wrapper plugin,
# good plugin, a directory to write to.
program=$1 wrapper=$2 good=$3
out=$4/conformance_isolation
mkdir -p "$out"
journal=$out/journal.jsonl
failures=0

fail() {
  echo "$1"
  failures=$((failures + 1))
}
expect() {  # expect CODE NAME COMMAND...
  wanted=$1 name=$2
  shift 2
  "$@" >"$out/stdout" 2>"$out/stderr"
  found=$?
  [ "$found" -eq "$wanted" ] || { fail "$name: exit code $found, expected $wanted"; cat "$out/stdout" "$out/stderr"; }
}
spoiled() {  # spoiled MUTANT [options]
  mutant=$1
  shift
  $before_it "$program" run --plugin "$wrapper" --option "base=$good" --option "mutant=$mutant" --threads 1 --journal "$journal" "$@"
}
before_it=
device_run="$program run --plugin $(dirname "$wrapper")/libbackend_mutant_device.so --option base=$good --option mutant=none --threads 1 --journal $journal"
count() { grep -c "$1" "$journal"; }

# Of these cases the one with 17 rows is the victim; the mutants leave the others alone.
victim=activation.silu.f32.17x1536.plain.packed.gaussian
cases="--filter activation.silu.f32.5x31.* --filter $victim --filter activation.silu.f32.3x4x65.*"
all=$("$program" list $cases 2>/dev/null | wc -l)

expect 0 "the unspoiled wrapper" spoiled none $cases
[ "$(count '"status":"pass"')" -eq "$all" ] || fail "the unspoiled wrapper does not pass $all cases"

# blamed MUTANT STATUS WORDS [options]: the victim has this status and its text these words; all the others pass.
blamed() {
  mutant=$1 status=$2 words=$3
  shift 3
  expect 7 "$mutant" spoiled "$mutant" $cases "$@"
  grep '"end"' "$journal" | grep "\"$victim\"" | grep "\"status\":\"$status\"" | grep -q "$words" ||
    fail "$mutant: the journal does not blame $victim with '$status' and '$words': $(grep '"end"' "$journal" | grep "\"$victim\"")"
  [ "$(count '"status":"pass"')" -eq $((all - 1)) ] || fail "$mutant: not all of the $((all - 1)) other cases pass"
  grep "\"$victim\"" "$journal" | grep -q 'alone in a new process: ' || fail "$mutant: the victim was not tried alone"
}
blamed crashes crash 'signal 11 (Segmentation fault) in submit'
blamed exits_with_70 crash 'exit code 70 in submit'
blamed exits_with_0 crash 'exit code 0'
blamed throws crash 'an exception that crosses the C boundary'
blamed hangs timeout 'no answer within' --deadline 1
blamed loses_device device_lost 'the device was lost'
blamed loses_device_in_status device_lost 'the run ended with DEVICE_LOST'

# The survey judges how long a probe takes. Probes for kernels by name, of which many start side by side, may take longer than its limit.
rm -f "$out/probed"
slow_probe() { QUERN_MUTANT_PROBED=$out/probed QUERN_CACHE_DIR=$out/cache_of_probes spoiled none --filter kernels.silu.f32.3x801.plain.packed.ramp.every_kernel --jobs 1; }
rm -rf "$out/cache_of_probes"
expect 0 "a device process whose probe takes 6 s" slow_probe
[ -e "$out/probed" ] || fail "the slow probe was not asked for"

# A script that compares statuses sees a failure; that the device is gone must not be the next case's fault.
saved_cases=$cases saved_victim=$victim saved_all=$all
victim=matmul.rejects.q4_k_rows_of_576
cases="--filter $victim --filter activation.silu.f32.5x31.*"
all=$("$program" list $cases 2>/dev/null | wc -l)
blamed loses_device_in_no device_lost 'the device was lost' --jobs 1
cases=$saved_cases victim=$saved_victim all=$saved_all

# The suite itself is ended in the middle; what was finished is not run again.
rm -f "$journal"
(before_it=exec; spoiled hangs $cases --jobs 1) >"$out/stdout" 2>"$out/stderr" &
suite=$!
while ! grep -qs "\"begin\":\"$victim\"" "$journal"; do kill -0 $suite || break; sleep 0.05; done
kill -KILL $suite
wait $suite 2>/dev/null
before=$(count '"end"')
expect 7 "resumed after the end of the suite" spoiled hangs $cases --jobs 1 --resume --deadline 1
[ "$(count '"end"')" -eq "$all" ] || fail "$(count '"end"') results after --resume, expected $all"
[ "$before" -lt "$all" ] && [ "$(count '"begin"')" -eq $((all + 1)) ] || fail "--resume ran finished cases again: $(count '"begin"') begins"

# A journal is of one plugin, one suite and one selection, each known by its content: what a byte more makes of them is another.
expect 0 "a whole run" spoiled none $cases
mkdir -p "$out/other"
refused() {  # refused NAME WORDS: the last command said why
  grep -q "$2" "$out/stderr" || fail "$1: does not say '$2': $(cat "$out/stderr")"
}
cp "$wrapper" "$out/other/libbackend_mutant.so" && printf x >>"$out/other/libbackend_mutant.so"
own=$wrapper wrapper=$out/other/libbackend_mutant.so
expect 2 "another plugin is not resumed" spoiled none $cases --resume
refused "another plugin" "the SHA-256 of the plugin of mutant:0 is"
wrapper=$own
cp "$program" "$out/other/quern-conformance" && printf x >>"$out/other/quern-conformance"
own=$program program=$out/other/quern-conformance
expect 2 "another build of the suite does not resume" spoiled none $cases --resume
refused "another build" "the suite's build is"
program=$own
expect 2 "another mutant is not resumed" spoiled prints $cases --resume
refused "another mutant" "the plugins' options is"
expect 2 "another selection is not resumed" spoiled none --filter "$victim" --resume
expect 0 "the same is" spoiled none $cases --resume
[ "$(count '"begin"')" -eq "$all" ] || fail "--resume of a finished run ran cases: $(count '"begin"') begins"

# Memory that a device does not have is told as such, and is no pass.
expect 7 "a device with little memory" $device_run --option memory=65536 --filter 'activation.silu.f32.17x1536.plain.packed.gaussian'
grep -q '"status":"resource".*a buffer of [0-9]* bytes' "$journal" || fail "little memory of a device is not told as resource: $(grep '"end"' "$journal")"

# A device that flushes f32 subnormals passes where it says so; the mutants add_flushes and ftz_* are the other side.
expect 0 "a declared flush" spoiled ftz --filter 'elementwise.add.*specials'
[ "$(count '"status":"pass"')" -gt 50 ] || fail "a declared flush: only $(count '"status":"pass"') cases"

# A graph alone tells that force_kernel is not looked at.
expect 7 "force_kernel ignored, found by a graph" spoiled forced_kernel_ignored --profile full --filter 'kernels.composite.rope_kv_write.q4_k.rows17.every_kernel'
grep -q 'compile accepted force_kernel=no.such.kernel' "$journal" || fail "no sentence about the kernel that does not exist"

# What is no result is no success.
expect 7 "a plugin that supports nothing" spoiled says_no $cases
expect 7 "a plugin that computes nothing" spoiled null $cases
expect 3 "a plugin without a device" spoiled no_device $cases
expect 3 "a mutant that there is not" spoiled nonsense $cases
expect 2 "a filter that matches nothing" spoiled none --filter 'zzzz*'
expect 7 "no case is left" spoiled none --filter 'matmul.*' --group copy
expect 2 "selftest: a mutant that there is not" "$program" selftest --mutant 'zzzz*'
expect 3 "an unknown backend" "$program" run --backend nosuch --journal "$journal"
exit $failures
