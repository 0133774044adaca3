// The numbers of products that the operators of a model compute, from the statistics of their
// inputs. They say how much of a model's time an operator stands for. Pure.
#pragma once

#include <map>
#include <set>
#include <string>

#include "calibrate/calibration_table.h"
#include "graph/model.h"

namespace bitpress::calibrate {

class Products {
 public:
  // Counts those of each operator that multiplies, for one sample. An operator whose input has no
  // statistics counts as nothing.
  Products(const graph::Model& model, const CalibrationTable& table);

  // Returns the sum over operators, which are given by their first outputs.
  double Sum(const std::set<std::string>& operators) const;

 private:
  std::map<std::string, double> counts_;
};

}  // namespace bitpress::calibrate
