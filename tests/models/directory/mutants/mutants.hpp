// The mutants that make_mutants.py writes: readers of weights and of the rotation with one step exchanged.
#pragma once

#include "model_keys.hpp"
#include "quantised_modules.hpp"

#include <string>
#include <vector>

namespace quern::directory {

struct WeightMutant {
  std::string name, source;
  QuantisedWeight (*weight)(const ModuleContext&, const QuantisedModule&);
};
extern const std::vector<WeightMutant> weight_mutants;

struct RopeMutant {
  std::string name, source;
  void (*write)(const Config&, const Family&, Shape&, gguf::Writer&);
};
extern const std::vector<RopeMutant> rope_mutants;

}  // namespace quern::directory
