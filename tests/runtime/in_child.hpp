// A test's work in a child process, so that it may end or change that process.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace quern::test {

/// Runs `body` in a child; 0 if it returned true, 1 if not, 128 and the signal if one ended it (14: it hung for `seconds`).
template <typename Body>
int in_child(unsigned seconds, const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace quern::test
