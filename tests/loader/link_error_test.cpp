// The dynamic linker's words become a code, a cause and a remedy.
#include "link_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::loader {
namespace {

using testing::HasSubstr;

Verdict explain(const std::string& raw) {
  Inspection found;
  found.needed = {"libcublas.so.12"};
  found.dependencies = {{"libcublas.so.12", "libcublas-12"}, {"libcuda.so.1", "nvidia-driver"}};
  return explain_link_error("/p/libbackend_x.so", raw, found);
}

TEST(LinkError, NamesAMissingLibraryAndItsPackage) {
  const Verdict v = explain("libcublas.so.12: cannot open shared object file: No such file or directory");
  EXPECT_EQ(v.code, "QUERN-L-0201");
  EXPECT_EQ(v.cause, "/p/libbackend_x.so: needs the shared library libcublas.so.12, which cannot be found");
  EXPECT_EQ(v.remedy, "install libcublas-12");
}

TEST(LinkError, SaysWhenADependencyOfADependencyIsMissing) {
  const Verdict v = explain("libdeep.so.1: cannot open shared object file: No such file or directory");
  EXPECT_THAT(v.cause, HasSubstr("one of its libraries needs libdeep.so.1"));
  EXPECT_THAT(v.remedy, HasSubstr("the package that has libdeep.so.1"));
}

TEST(LinkError, NamesAnUndefinedSymbolWithoutItsVersion) {
  const Verdict v = explain("/p/libbackend_x.so: undefined symbol: cublasCreate_v3, version libcublas.so.12");
  EXPECT_EQ(v.code, "QUERN-L-0202");
  EXPECT_THAT(v.cause, HasSubstr("'cublasCreate_v3'"));
}

TEST(LinkError, TellsTooOldASystemFromTooOldALibrary) {
  const Verdict system = explain("/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.99' not found (required by /p/libbackend_x.so)");
  EXPECT_EQ(system.code, "QUERN-L-0203");
  EXPECT_THAT(system.cause, HasSubstr("needs GLIBC_2.99, which libc.so.6 of this system does not have"));
  EXPECT_THAT(system.remedy, HasSubstr("this release of the system"));
  EXPECT_EQ(explain("/usr/lib/libfoo.so.2: version `FOO_3' not found (required by /p/x.so)").remedy, "install a newer libfoo.so.2");
}

TEST(LinkError, ClassifiesThreadLocalStorageAndPermission) {
  EXPECT_EQ(explain("/p/x.so: cannot allocate memory in static TLS block").code, "QUERN-L-0204");
  EXPECT_EQ(explain("/p/x.so: failed to map segment from shared object: Operation not permitted").code, "QUERN-L-0205");
  EXPECT_EQ(explain("/p/libbackend_x.so: cannot open shared object file: Permission denied").code, "QUERN-L-0205");
}

TEST(LinkError, PassesOnWhatItDoesNotKnow) {
  const Verdict v = explain("the moon is in the wrong phase");
  EXPECT_EQ(v.code, "QUERN-L-0206");
  EXPECT_THAT(v.cause, HasSubstr("the moon is in the wrong phase"));
  EXPECT_EQ(v.raw_error, "the moon is in the wrong phase");
}

}  // namespace
}  // namespace quern::loader
