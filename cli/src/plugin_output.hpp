// Keeps the results of the program apart from what a plugin prints, and names the plugin that does.
#pragma once

namespace quern::cli {

/// Moves standard output to another descriptor and watches what lands in its place. Called once, by main(), before anything is written. Where the
/// system has no descriptor or memory for it, results stay where they are.
void keep_results_apart();

}  // namespace quern::cli
