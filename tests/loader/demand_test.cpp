// A demand is met or refused with reason and remedy; never does another backend take its place.
#include "fixture.hpp"
#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace quern::loader {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const Loader& loader) {
  try {
    loader.require();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), QUERN_BACKEND_UNAVAILABLE);
    EXPECT_TRUE(loader.candidates().empty());
    return e.what();
  }
  return "met";
}

struct DemandTest : testing::Test {
  DemandTest() { machine.add({"cpu", "cuda", "vulkan", "raster", "probe_misses_library"}); }
  Settings demand(std::vector<std::string> ids) {
    Settings s = machine.settings();
    s.backends.set(std::move(ids), "QUERN_BACKEND");
    return s;
  }
  Settings device(const std::string& name) {
    Settings s = machine.settings();
    s.device.set(name, "QUERN_DEVICE");
    return s;
  }
  Machine machine;
};

TEST_F(DemandTest, WithoutOneTheOwnApiComesBeforeVulkanAndTheCpuLast) {
  // vulkan:2 is a card that cuda does not list; vulkan:0 and 1 are cuda's.
  EXPECT_THAT(labels(Loader(machine.settings())), ElementsAre("cuda:1", "vulkan:2", "cuda:0", "cpu:0"));
}

TEST_F(DemandTest, OpensOnlyWhatIsListedInTheListsOrder) {
  Loader loader(demand({"cpu", "cuda"}));
  EXPECT_THAT(labels(loader), ElementsAre("cpu:0", "cuda:1", "cuda:0"));
  const ReportEntry vulkan = entry_of(loader.report(), "vulkan");
  EXPECT_EQ(vulkan.code, "QUERN-L-0010");
  EXPECT_TRUE(vulkan.devices.empty()) << "it was not even probed";
  EXPECT_THAT(vulkan.cause, HasSubstr("QUERN_BACKEND=cpu,cuda asks for others"));
}

TEST_F(DemandTest, ABrokenBackendIsAnErrorWithReasonAndRemedy) {
  EXPECT_THAT(refusal(Loader(demand({"probe_misses_library"}))),
              AllOf(HasSubstr("QUERN_BACKEND=probe_misses_library cannot be met"), HasSubstr("libzoo_driver.so.1"),
                    HasSubstr("install zoo-driver-package")));
}

TEST_F(DemandTest, AMissingBackendNamesThePackageAndTheDirectory) {
  EXPECT_THAT(refusal(Loader(demand({"rocm"}))),
              AllOf(HasSubstr("'rocm' is not installed in " + machine.root / "plugins"), HasSubstr("install quern-backend-rocm")));
}

TEST_F(DemandTest, OneWorkingBackendOfTheListIsEnough) { EXPECT_THAT(labels(Loader(demand({"rocm", "cpu"}))), ElementsAre("cpu:0")); }

TEST_F(DemandTest, DisableWinsOverTheDemand) {
  Settings s = demand({"cuda"});
  s.disabled.set({"cu*"}, "QUERN_BACKEND_DISABLE");
  Loader loader(s);
  EXPECT_THAT(refusal(loader), HasSubstr("disabled by QUERN_BACKEND_DISABLE=cu*"));
  EXPECT_EQ(entry_of(loader.report(), "cuda").code, "QUERN-L-0009");
}

TEST_F(DemandTest, ForcingTheCpuOpensNothingElse) {
  Settings s = machine.settings();
  s.force_cpu.set(true, "CUDA_FORCE_CPU");
  Loader loader(s);
  EXPECT_THAT(labels(loader), ElementsAre("cpu:0"));
  EXPECT_EQ(entry_of(loader.report(), "cuda").code, "QUERN-L-0011");
}

TEST_F(DemandTest, ForcingTheCpuAgainstADemandNamesBoth) {
  Settings s = demand({"cuda"});
  s.force_cpu.set(true, "CUDA_FORCE_CPU");
  EXPECT_THAT(refusal(Loader(s)), AllOf(HasSubstr("CUDA_FORCE_CPU=1"), HasSubstr("QUERN_BACKEND=cuda")));
  Settings t = device("cuda:0");
  t.force_cpu.set(true, "AXOLOTL_FORCE_CPU");
  EXPECT_THAT(refusal(Loader(t)), AllOf(HasSubstr("AXOLOTL_FORCE_CPU=1"), HasSubstr("QUERN_DEVICE=cuda:0")));
}

TEST_F(DemandTest, ANamedDeviceIsADemandForItsBackend) {
  Loader loader(device("vulkan:1"));
  EXPECT_THAT(labels(loader), ElementsAre("vulkan:1"));
  EXPECT_EQ(entry_of(loader.report(), "cuda").code, "QUERN-L-0010");
  EXPECT_EQ(entry_of(loader.report(), "vulkan").devices[0].code, "QUERN-L-0607");
}

TEST_F(DemandTest, AnAddressIsServedByTheVendorsOwnApi) {
  EXPECT_THAT(labels(Loader(device("0000:01:01.0"))), ElementsAre("cuda:1"));
  EXPECT_THAT(labels(Loader(device("01:02.0"))), ElementsAre("vulkan:2"));
}

TEST_F(DemandTest, ListedBackendsServeBesideTheNamedDevice) {
  Settings s = device("vulkan:1");
  s.backends.set({"vulkan", "cpu"}, "QUERN_BACKEND");
  EXPECT_THAT(labels(Loader(s)), ElementsAre("vulkan:1", "cpu:0"));
}

TEST_F(DemandTest, ADeviceOutsideOfTheListIsAContradiction) {
  Settings s = device("vulkan:1");
  s.backends.set({"cpu"}, "QUERN_BACKEND");
  EXPECT_THAT(refusal(Loader(s)), AllOf(HasSubstr("QUERN_DEVICE=vulkan:1"), HasSubstr("QUERN_BACKEND=cpu does not list it")));
}

TEST_F(DemandTest, ADeviceThatIsNotThereListsThoseThatAre) {
  EXPECT_THAT(refusal(Loader(device("cuda:7"))), AllOf(HasSubstr("QUERN_DEVICE=cuda:7"), HasSubstr("cuda:0 (Zoo Zero), cuda:1 (Zoo One)")));
  EXPECT_THAT(refusal(Loader(device("0000:77:00.0"))), HasSubstr("there is no such device"));
}

TEST_F(DemandTest, ASoftwareRasteriserNeedsItsName) {
  Loader demanded(demand({"raster"}));
  EXPECT_THAT(refusal(demanded),
              AllOf(HasSubstr("a software rasteriser is used only if it is named"), HasSubstr("set QUERN_DEVICE=raster:0")));
  EXPECT_THAT(labels(Loader(device("raster:1"))), ElementsAre("raster:1"));
}

TEST_F(DemandTest, ANameThatIsNoDeviceIsAMistakeOfTheCaller) {
  for (const char* name : {"cuda", "cuda:x", "cuda:-1", "gpu zero", "GPU-1234", ":3"}) {
    try {
      Loader loader(device(name));
      ADD_FAILURE() << name << " was taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), QUERN_INVALID_ARGUMENT);
      EXPECT_THAT(e.what(), HasSubstr("QUERN_DEVICE is '" + std::string(name) + "'"));
    }
  }
}

TEST(NoPlugins, AnEmptyDirectoryIsAnErrorThatSaysWhatToInstall) {
  Machine machine;
  EXPECT_THAT(refusal(Loader(machine.settings())), AllOf(HasSubstr("no backend can be used"), HasSubstr("quern-backend-cpu")));
}

TEST(Demand, ABackendThatCannotBeUsedIsNamedWhereAnotherOneCan) {
  Machine m;
  m.add({"good", "create_fails"});
  Settings s = m.settings();
  s.backends.set({"create_fails", "absent", "good"}, "QUERN_BACKEND");
  const Loader loader(s);
  ASSERT_EQ(labels(loader), (std::vector<std::string>{"good:0"}));
  std::vector<std::string> causes;
  for (const ReportEntry& e : loader.report().entries)
    if (e.code == "QUERN-L-0704") causes.push_back(e.cause);
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_THAT(causes[0], AllOf(HasSubstr("QUERN_BACKEND=create_fails,absent,good: create_fails cannot be used, and good:0 computes: "),
                               HasSubstr("could not be created")));
  EXPECT_THAT(causes[1], HasSubstr("absent cannot be used, and good:0 computes: 'absent' is not installed"));
  const std::vector<std::string> log = m.log_lines();
  EXPECT_EQ(std::ranges::count_if(log, [](const std::string& line) { return line.find("QUERN-L-0704") != line.npos; }), 2);
}

}  // namespace
}  // namespace quern::loader
