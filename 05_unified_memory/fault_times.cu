// fault_times: when do the pages of page_faults move? The wiki's note names the tool that showed
// it, nvprof --print-gpu-trace [LC A]. Here a line per version shows one run of it on one scale,
// and every event is saved. Look at the pauses: the driver serves faults in bursts, and a prefetch
// has none. The text makes no claim.
//
//   cmake -S 05_unified_memory -B build/fault_times -DEXPERIMENTS=fault_times
//   cmake --build build/fault_times && build/fault_times/05_unified_memory
//
//   the kernels and the four versions stand in page_copies.cuh
#include <algorithm>

#include "page_copies.cuh"

using namespace samples;

namespace {

// ---- one event ----

struct Kind {
  Happened::What what;
  const char *key, *words;
  char sign;
};
const Kind kinds[] = {{Happened::gpu_fault, "_gpu_faults", ", GPU faults", 'f'},
                      {Happened::to_device, "_to_device", ", to device", '>'},
                      {Happened::to_host, "_to_host", ", to host", '<'}};

/// A fault of the GPU has the time at which it came; a transfer the time at which it had arrived.
struct Moment {
  const Kind* kind;
  double us;
  double lasts;   ///< NaN if it was not recorded
  double so_far;  ///< MiB moved in this direction, or pages faulted, with this one

  double from() const {
    return kind->what == Happened::gpu_fault || !std::isfinite(lasts) ? us : us - lasts;
  }
  double to() const {
    return kind->what == Happened::gpu_fault && std::isfinite(lasts) ? us + lasts : us;
  }
};

/// What happened, less the host's faults, in the order of time.
std::vector<Moment> events_of(const Migrations& m) {
  std::vector<Moment> events;
  double mib_to_device = 0, mib_to_host = 0, faulted = 0;
  for (const Happened& each : m.events)
    for (const Kind& kind : kinds) {
      if (kind.what != each.what) continue;
      const bool fault = each.what == Happened::gpu_fault;
      double& sum = fault                              ? faulted
                    : each.what == Happened::to_device ? mib_to_device
                                                       : mib_to_host;
      sum += fault ? 1 : each.bytes / (1 << 20);
      events.push_back({&kind, fault ? each.from_us : each.to_us, each.to_us - each.from_us, sum});
    }
  return events;
}

// ---- through the gate ----

const char* so_far_of(const Kind& kind) {
  return kind.what == Happened::gpu_fault ? "pages faulted so far" : "moved so far";
}

/// Each event is asked for by its version, its kind and its number.
std::vector<Moment> ask_events(const Run& run, const Version& version,
                               const Function<std::vector<Moment>()>& record) {
  Once<std::vector<Moment>> here{record};
  const double count =
      ask(run, version.key, "events", "", [&] { return single(double(here().size())); }).median;
  constexpr int most = 4096;  // of a recording that has no count: until no event has the number
  std::vector<Moment> events;
  for (int i = 1; i <= most && !(i > count); ++i) {
    const size_t before = events.size();
    for (const Kind& kind : kinds) {
      const auto value = [&](const char* metric, double Moment::*member) {
        return run.machine
            ->value({std::string(version.key) + kind.key, double(i)}, metric, false,
                    [&] {
                      const Moment& event = here().at(size_t(i) - 1);
                      return event.kind == &kind ? single(event.*member) : Statistics{};
                    })
            .median;
      };
      const double us = value("since the first", &Moment::us);
      if (!std::isfinite(us)) continue;
      events.push_back(
          {&kind, us, value("lasts", &Moment::lasts), value(so_far_of(kind), &Moment::so_far)});
      break;
    }
    if (events.size() == before) break;
  }
  return events;
}

// ---- what is shown ----

/// A run on one line, a cell for each `cell_us`. What moves hides a fault.
std::string time_line(const std::vector<Moment>& events, double cell_us, size_t cells) {
  std::string line(cells, '.');
  for (const Kind& kind : kinds)
    for (const Moment& each : events) {
      if (each.kind != &kind) continue;
      const double last = double(cells) - 1;
      const size_t from = size_t(std::clamp(std::floor(each.from() / cell_us), 0.0, last));
      const size_t to = size_t(std::clamp(std::floor(each.to() / cell_us), 0.0, last));
      std::fill(line.begin() + long(from), line.begin() + long(to) + 1, kind.sign);
    }
  return line;
}

void save(const Run& run, const Version& version, const std::vector<Moment>& events) {
  Table table(
      run.report, "when",
      {saved_only(counted("", "since the first", "us", 3)),
       saved_only(counted("", "lasts", "us", 3)), saved_only(counted("", "moved so far", "MiB", 4)),
       saved_only(counted("", "pages faulted so far", "", 0))});
  int index = 0;
  for (const Moment& each : events) {
    const bool fault = each.kind->what == Happened::gpu_fault;
    table.row({std::string(version.key) + each.kind->key, "event", std::to_string(++index),
               std::string(version.words) + each.kind->words},
              {each.us, std::isfinite(each.lasts) ? Cell(each.lasts) : Cell(),
               fault ? Cell() : Cell(each.so_far), fault ? Cell(each.so_far) : Cell()});
  }
}

/// One run of a version that was recorded whole; three are tried.
std::vector<Moment> record(const Version& version) {
  MigrationRecording recording;
  for (int attempt = 0; attempt < 3; ++attempt)
    recording.count([&] { copy_once(version, text_size); });
  for (const Migrations& m : recording.end())
    if (complete(m, text_size)) return events_of(m);
  return {};
}

void run_fault_times(const Run& run) {
  run.report.begin("fault_times", std::to_string(text_size) + " floats, " +
                                      bytes_text(bytes_of(text_size)) +
                                      ", copied between managed arrays in four ways");
  const Abilities can = ask_abilities(run);
  const bool here = run.device && run.device->number >= 0;
  const bool usable = can.managed && can.on_demand;
  const std::string why = !here ? "" : usable ? migrations_uncounted_because() : can.why();
  if (!why.empty()) run.report.left_out("the time lines", why);
  std::vector<Moment> events[std::size(versions)];
  double last_us = 0;
  for (size_t v = 0; v < std::size(versions); ++v) {
    events[v] = ask_events(run, versions[v], [&] {
      return why.empty() ? record(versions[v]) : std::vector<Moment>();
    });
    for (const Moment& each : events[v]) last_us = std::max(last_us, each.to());
  }
  if (!(last_us > 0)) return;
  constexpr size_t cells = 72;
  run.report.note(fixed(last_us / cells, 0) +
                  " us per sign: f faults of the GPU are served, > to the device, < to the host");
  for (size_t v = 0; v < std::size(versions); ++v) {
    const std::string name = versions[v].words;
    run.report.note(name + std::string(21 - name.size(), ' ') +
                    time_line(events[v], last_us / cells, cells));
    save(run, versions[v], events[v]);
  }
}

Needs needs(const Run&) { return {.allocated = 2 * bytes_of(text_size)}; }

}  // namespace

extern const Experiment fault_times_experiment{
    .name = "fault_times",
    .about = "when the pages of page_faults move: a time line per version",
    .run = run_fault_times,
    .needs = needs,
};
