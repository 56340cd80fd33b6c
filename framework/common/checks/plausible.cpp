#include "plausible.hpp"

#include <doctest/doctest.h>

void check_plausible(const Function<void(const Run&)>& experiment) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  std::string printed;
  Report report("plausible", &printed);
  report.heading(&device, "");
  Run run{report, &device, {}, true, false};
  run.measuring.rounds = Measuring::quick_rounds;
  run.measuring.budget_ms = 50;
  experiment(run);
  CHECK(!report.predictions().empty());
  for (const Prediction& p : report.predictions()) {
    constexpr double launches_matter_ms = 0.02;
    if (p.model == Model::host) continue;
    const bool in_us = p.unit == "us";
    if (p.model == Model::latency && (in_us || p.unit == "ms") &&
        p.measured * (in_us ? 1e-3 : 1) < launches_matter_ms)
      continue;
    const double factor = p.model == Model::traffic ? 1.6 : 2.5;
    const double off = p.measured / p.predicted;
    CAPTURE(p.row);
    CAPTURE(p.predicted);
    CAPTURE(p.measured);
    CHECK(off < factor);
    CHECK(off > 1 / factor);
  }
}
