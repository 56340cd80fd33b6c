// The table of `ladder`'s rungs: a row each, of floats and of unsigned words.
#include "ladder.hpp"

namespace reduce {

namespace {

/// A rung's row; floats are not named.
template <class T>
Key key_of(int rung) {
  if (std::is_same_v<T, float>) return {rungs[rung].name};
  return {rungs[rung].name, "type", "unsigned"};
}

}  // namespace

RungTable::RungTable(const Run& run, size_t n)
    : run(run),
      n(n),
      table(run.report, "kernel, float",
            {compared("us", "time", "us", 1), shown("spread"),
             measured("GB/s", "bandwidth", "GB/s", 0), shown("of theory"),
             predicted("a block's instructions", "instructions of a block", "1", 0),
             predicted("wavefronts", "wavefronts of a block", "1", 0), shown("")}) {}

void RungTable::add(const Key& key, const Rung& rung, const Cell& us, const Readings& times) {
  const Statistics gbs = gigabytes_per_second(4.0 * double(n), times.statistics());
  const double theory = run.device ? run.device->theoretical_gbs : 0;
  const double share = theory > 0 ? gbs.median / theory : NAN;
  const bool by_instructions = rung.instructions.of_a_warp > 0;
  table.row(key, {us, spread_text(times.statistics()), gbs, percent(share),
                  by_instructions ? Cell(instructions_of_block(rung)) : Cell(),
                  by_instructions ? Cell(wavefronts_of_block(rung).both()) : Cell(), bar(share)});
}

void RungTable::add_launch(const Statistics& us) {
  const Cell none;
  table.row({"descending, one word"},
            {Calibration{us}, spread_text(us), none, none, none, none, none});
}

void RungTable::add_unmeasured() {
  for (int rung = 0; rungs[rung].instructions.of_a_warp > 0; ++rung)
    add(rung == redux ? key_of<unsigned>(rung) : key_of<float>(rung), rungs[rung], {}, {});
}

template <class T>
void RungTable::add_rows(const std::vector<int>& which, const Times& times, const Calibrated& c) {
  for (const int rung : which) {
    const Statistics us = scaled(times[rung].statistics(), 1e3);
    const bool calibrates = std::is_same_v<T, float> && (rung == descending || rung == several);
    const Compared compared{1e3 * predicted_ms(rungs[rung], n, c, *run.device), us,
                            model_of(rungs[rung], n, c, *run.device)};
    add(key_of<T>(rung), rungs[rung], calibrates ? Cell(Calibration{us}) : Cell(compared),
        times[rung]);
  }
}

template void RungTable::add_rows<float>(const std::vector<int>&, const Times&, const Calibrated&);
template void RungTable::add_rows<unsigned>(const std::vector<int>&, const Times&,
                                            const Calibrated&);

}  // namespace reduce
