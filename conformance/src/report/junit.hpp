// A run as JUnit XML: what CI systems read.
#pragma once

#include "report/record.hpp"

#include <string>

namespace quern::conformance {

/// A testsuite a device, a testcase a case (classname: group and op). Waived is skipped; fail, unknown, resource and unsupported are
/// failures; crash, time-out and a lost device are errors, each with its text; the header is in the properties. The same record gives
/// the same bytes.
std::string junit_xml(const Record& record);

}  // namespace quern::conformance
