// The verbs: each reads its flags, asks the library, writes its result and returns the exit code.
#pragma once

#include "command_line.hpp"

namespace quern::cli {

int run_verb(const CommandLine& line, const Settings& settings);
int tokenize_verb(const CommandLine& line, const Settings& settings);
int eval_verb(const CommandLine& line, const Settings& settings);
int bench_verb(const CommandLine& line, const Settings& settings);
int devices_verb(const CommandLine& line, const Settings& settings);
int doctor_verb(const CommandLine& line, const Settings& settings);
int show_verb(const CommandLine& line);
int estimate_verb(const CommandLine& line, const Settings& settings);
int pull_verb(const CommandLine& line, const Settings& settings);
int list_verb(const CommandLine& line, const Settings& settings);
int monitor_verb(const CommandLine& line);
int trace_verb(const CommandLine& line);
int train_verb(const CommandLine& line, const Settings& settings);
int merge_verb(const CommandLine& line, const Settings& settings);
int quantize_verb(const CommandLine& line, const Settings& settings);
int imatrix_verb(const CommandLine& line, const Settings& settings);
int export_verb(const CommandLine& line);
int convert_verb(const CommandLine& line, const Settings& settings);
int rm_verb(const CommandLine& line, const Settings& settings);
int ps_verb(const CommandLine& line);

}  // namespace quern::cli
