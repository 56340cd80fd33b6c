// fault_tree: how much does the driver bring when the host touches a page that lies on the device?
// No text says it. The rule stands in driver_tree.hpp: 64 KiB, and then each aligned 128 KiB, 256
// KiB and so on up to the block of 2 MiB of which more than 51% is there. Here the host walks
// through blocks in five orders. Look at the random order: the other orders also fit simpler rules.
//
//   cmake -S 05_unified_memory -B build/fault_tree -DEXPERIMENTS=fault_tree
//   cmake --build build/fault_tree && build/fault_tree/05_unified_memory
#include <random>

#include "driver_tree.hpp"
#include "migrations.hpp"

using namespace samples;

namespace {

static_assert(parts_of_block * 65536 == block_bytes);
constexpr size_t blocks = 5;

// ---- walks ----

/// An order in which the host reads a word of parts of 64 KiB of a block.
struct Walk {
  const char *key, *words;
  std::vector<unsigned> (*order)();
};

std::vector<unsigned> backward() {
  const std::vector<unsigned> forward = in_order();
  return {forward.rbegin(), forward.rend()};
}

std::vector<unsigned> every_second() {
  std::vector<unsigned> order;
  for (unsigned part = 0; part < parts_of_block; part += 2) order.push_back(part);
  return order;
}

std::vector<unsigned> shuffled() {
  std::vector<unsigned> order = in_order();
  std::shuffle(order.begin(), order.end(), std::mt19937(19));
  return order;
}

std::vector<unsigned> one_word() { return {10}; }

const Walk walks[] = {{"from_its_start", "from its start", in_order},
                      {"from_its_end", "from its end", backward},
                      {"every_second_part", "every second part", every_second},
                      {"in_random_order", "in random order", shuffled},
                      {"one_word", "one word", one_word}};

/// What the driver does while the host walks so through blocks that lie on the device.
Migrations count_walk(const Walk& walk) {
  const Managed<char> memory(blocks * block_bytes);
  memory.prefetch(this_device());
  CUDA_CHECK(cudaMemset(memory.data(), 3, memory.bytes()));
  wait_for_device();
  size_t wrong = 0;
  MigrationRecording recording;
  recording.count([&] {
    for (size_t block = 0; block < blocks; ++block)
      for (const unsigned part : walk.order()) {
        const volatile char* const word = &memory[block * block_bytes + part * 65536];
        wrong += *word != 3;
      }
  });
  require_right(wrong == 0, std::string(walk.words) + ", what the host reads");
  return recording.end().at(0);
}

// ---- the experiment ----

void run_fault_tree(const Run& run) {
  run.report.begin("fault_tree", "the host reads a word of parts of 64 KiB of " +
                                     std::to_string(blocks) + " blocks that lie on the device");
  const Abilities can = ask_abilities(run);
  const bool here = run.device && run.device->number >= 0;
  const bool usable = can.managed && can.on_demand;
  const std::string why = !here ? "" : usable ? migrations_uncounted_because() : can.why();
  if (!why.empty()) run.report.left_out("counts; the rule stands alone", why);
  Table table(
      run.report, "the host reads parts of 64 KiB",
      {predicted("faults: rule", "CPU faults", "", 0), counted("counted", "CPU faults", "", 0),
       predicted("transfers: rule", "transfers", "", 0), counted("counted", "transfers", "", 0)});
  for (const Walk& walk : walks) {
    Once<Migrations> counts{[&walk] { return count_walk(walk); }};
    const Ref ref(walk.key, double(blocks));
    const auto count = [&](const char* metric, double (*value)(const Migrations&)) {
      const double found = ask_for_table(run, ref, metric, "", [&] {
                             if (!why.empty() || counts().lost) return Statistics{};
                             return single(value(counts()));
                           }).median;
      return std::isfinite(found) ? Cell(found) : Cell();
    };
    const Served rule = served(walk.order());
    table.row({walk.key, "blocks", std::to_string(blocks), walk.words},
              {double(blocks * rule.faults),
               count("CPU faults", [](const Migrations& m) { return double(m.cpu_faults); }),
               double(blocks * rule.transfers),
               count("transfers", [](const Migrations& m) { return double(m.to_host.count); })});
  }
  table.print();
}

Needs needs(const Run&) { return {.allocated = double(blocks * block_bytes)}; }

}  // namespace

extern const Experiment fault_tree_experiment{
    .name = "fault_tree",
    .about = "the driver's rule: what a fault of the host brings, in five orders of touching",
    .run = run_fault_tree,
    .needs = needs,
};
