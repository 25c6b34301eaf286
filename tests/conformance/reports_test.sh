#!/bin/sh
# Reports, verification, repeats, seeds and bench on the CPU plugin; exclusions on the sample plugin; the manual.
# Arguments: program, a directory to write to, the source, the sample plugin's file.
program=$1
out=$2/conformance_reports
source=$3
sample=$4
mkdir -p "$out"
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
  [ "$found" -eq "$wanted" ] && return
  fail "$name: exit code $found, expected $wanted"
  cat "$out/stdout" "$out/stderr"
}
says() { grep -q -e "$1" "$out/stdout" "$out/stderr" || { fail "nothing says '$1'"; cat "$out/stdout" "$out/stderr"; }; }
journal=$out/journal.jsonl
run="$program run --backend cpu --jobs 2 --journal $journal"

expect 0 "a run with reports" $run --group activation --junit "$out/a.xml" --html "$out/a.html"
expect 0 "the same reports from the journal" $program report "$journal" --junit "$out/b.xml" --html "$out/b.html"
cmp -s "$out/a.xml" "$out/b.xml" || fail "the JUnit files of run and report differ"
cmp -s "$out/a.html" "$out/b.html" || fail "the pages of run and report differ"
python3 "$source/tests/support/check_page.py" "$out/a.html" || fail "the page is not well formed, or asks for something outside itself"
python3 - "$out/a.xml" "$journal" <<'END' || fail "the JUnit file does not agree with the journal"
import json, sys, xml.etree.ElementTree as tree
suites = tree.parse(sys.argv[1]).getroot().findall("testsuite")
ends = [json.loads(line) for line in open(sys.argv[2]) if line.startswith('{') and '"end"' in line]
assert len(suites) == 1 and len(suites[0].findall("testcase")) == len(ends) == int(suites[0].get("tests")) > 100
header = json.loads(open(sys.argv[2]).readline())
assert all(len(header[key]) == 64 for key in ("build", "selection")) and len(header["targets"][0]["sha256"]) == 64, header
END

expect 0 "a whole journal is verified" $program verify "$journal" --group activation --html "$out/a.html" --junit "$out/a.xml"
expect 7 "a part is not the whole" $program verify "$journal"
says "without a result"
expect 7 "a page that was changed" sh -c "echo >> '$out/b.html'; $program verify $journal --group activation --html $out/b.html"
sed 's/"sha256":"[0-9a-f]/"sha256":"/' "$journal" >"$out/other.jsonl"
expect 7 "another plugin" $program verify "$out/other.jsonl" --group activation
says "SHA-256 of the plugin of cpu:0"
sed '1s/"driver":"[^"]*"/"driver":"none"/' "$journal" >"$out/other.jsonl"
expect 7 "another driver" $program verify "$out/other.jsonl" --group activation
says "driver of cpu:0"
sed '0,/"status":"pass"/s//"status":"fail"/' "$journal" >"$out/other.jsonl"
expect 7 "a failure in the journal" $program verify "$out/other.jsonl" --group activation
says "not green"
expect 7 "a failure in the journal's summary" $program report "$out/other.jsonl"
sed '0,/"worst":[0-9.e-]*/s//"worst":1.5/' "$journal" >"$out/other.jsonl"
expect 7 "a pass with an error beyond its bound" $program verify "$out/other.jsonl" --group activation
says "beyond the bound"
sed '0,/"begin"/{/"begin"/d}' "$journal" | sed '0,/"end"/{/"end"/d}' >"$out/other.jsonl"
expect 7 "a case was taken out" $program verify "$out/other.jsonl" --group activation
says "without a result"
sed '0,/"end"/{/"end"/{p}}' "$journal" >"$out/other.jsonl"
expect 7 "a case has two results" $program verify "$out/other.jsonl" --group activation
says "with two results"
sed '1s/"suite":"[^"]*"/"suite":"9.9"/' "$journal" >"$out/other.jsonl"
expect 7 "another suite" $program verify "$out/other.jsonl" --group activation
sed '0,/"label":"cpu:0"/s//"label":"nosuch:0"/; s/"target":"cpu:0"/"target":"nosuch:0"/; s/"plugin":"cpu"/"plugin":"nosuch"/; s/"path":"[^"]*"/"path":"\/no"/' \
  "$journal" >"$out/other.jsonl"
expect 3 "a device that is not here" $program verify "$out/other.jsonl" --group activation
expect 2 "no journal" $program verify "$out/a.xml"
expect 2 "no file" $program report "$out/nosuch"
expect 2 "no argument" $program verify

expect 0 "three runs with one verdict" $run --op silu --dtype f16 --repeat 3
grep -q '"repeat":3' "$journal" || fail "the header does not hold --repeat"
expect 0 "other data" $run --op silu --seed 7
grep -q '"seed":7' "$journal" || fail "the header does not hold the seed"
expect 2 "a journal of other data is not resumed" $run --op silu --seed 8 --resume
says "the seed is 8, the journal says 7"
expect 0 "the journal of other data is verified" $program verify "$journal" --op silu

expect 0 "onnx" $run --group onnx
expect 0 "bench" $program bench --backend cpu --filter 'activation.silu.f32.17x1536.plain.packed.gaussian' --samples 3 --json "$out/bench.json"
python3 - "$out/bench.json" <<'END' || fail "the numbers of bench do not agree"
import json, sys
device = json.load(open(sys.argv[1]))["devices"][0]
row = device["cases"][0]
assert row["status"] == "pass" and len(row["seconds"]) == 3 and row["bytes"] == 2 * 17 * 1536 * 4, row
assert row["median"] == sorted(row["seconds"])[1] and abs(row["bytes_per_second"] * row["median"] / row["bytes"] - 1) < 1e-9
assert len(device["peaks"]) == 5 and all(value > 0 for value in device["peaks"].values()), device["peaks"]
END
expect 2 "a median needs three runs" $program bench --samples 2

# A plugin that does not support all: what is mandatory, and what a list of exclusions changes.
printf 'not_yet *f16* floats of 16 bits\nnot_yet *.*gap* rows that lie apart\nnot_yet *.*order* permuted dimensions\n' >"$out/mine.txt"
expect 7 "a plugin without exclusions" $program run --plugin "$sample" --op add --journal "$journal"
says "not supported, and mandatory"
expect 7 "bench of what it does not support" $program bench --plugin "$sample" --filter 'elementwise.add.f16-f16-f32.*' --samples 3
expect 0 "bench with the list" $program bench --plugin "$sample" --filter 'elementwise.add.f16-f16-f32.*' --samples 3 --exclusions "$out/mine.txt"
expect 0 "with them" $program run --plugin "$sample" --op add --exclusions "$out/mine.txt" --journal "$journal"
expect 0 "its journal" $program verify "$journal" --op add --exclusions "$out/mine.txt"
expect 7 "without the list the waivers do not hold" $program verify "$journal" --op add
says "waived without an entry"
printf 'never elementwise.add.f32.* it has none\n' >>"$out/mine.txt"
expect 7 "an exclusion that is not needed" $program run --plugin "$sample" --op add --exclusions "$out/mine.txt" --journal "$journal"
says "passes although it is excluded"
expect 2 "a list that is none" $program run --plugin "$sample" --op add --exclusions "$journal" --journal "$out/other.jsonl"

python3 - "$program" "$source/packaging/man/quern-conformance.1" <<'END' || fail "the manual lacks something of the program"
import re, subprocess, sys
page = open(sys.argv[2]).read().replace("\\-", "-")
text = subprocess.run([sys.argv[1], "--help"], capture_output=True, text=True).stdout
flags = set(re.findall(r"(?m)^  (--[a-z][a-z-]+)", text))
verbs = re.findall(r"(?m)^  ([a-z]+) +[A-Za-z]", text.split("which devices")[0])
assert len(flags) > 20 and {"run", "list", "report", "verify", "bench"} <= set(verbs), (flags, verbs)
missing = [flag for flag in flags if not re.search(re.escape(flag) + r"(?![\w-])", page)] + [v for v in verbs if not re.search(rf"\.SS \"?{v}\b", page)]
assert not missing, missing
assert not [code for code in ("0", "2", "3", "7", "70") if not re.search(rf"(?m)^{code}\t", page)]
END
exit $failures
