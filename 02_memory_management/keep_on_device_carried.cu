// keep_on_device's other half: work of one operation per word. A study of 2007 finds it of little
// use to carry such work to the card: what the fast memory gains is lost on the way there and back
// [BW]. Look at the host's own time, on all its cores, beside the card's with the way and without.
//
//   1  add_to_each  out = in + 1: the result returns
//   2  sum_numbers  only a sum returns
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "host_crew.hpp"
#include "host_memory.hpp"
#include "keep_on_device.hpp"

using namespace samples;

namespace {

// ---- kernels ----

// [add_to_each]
// Each warp reads 32 neighbouring words and writes 32: one operation for eight bytes.
__global__ void add_to_each(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}
// [/add_to_each]

// Each warp reads 32 neighbouring words, steps on by the whole grid, and adds its sum to the total.
__global__ void sum_numbers(unsigned* total, const unsigned* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads) sum += in[i];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}

// ---- what is right ----

/// No two of 2^32 numbers are alike: one left out and another taken twice show in the sum.
unsigned number_at(size_t i) { return unsigned(i) * 2654435761u + 12345u; }

/// What all of them add up to.
unsigned sum_of_numbers(size_t n) {
  return unsigned(n * (n - 1) / 2) * 2654435761u + unsigned(n) * 12345u;
}

// ---- the host ----

/// The arrays on the host, pageable unless they are registered, and its threads.
struct Host {
  size_t n;
  std::unique_ptr<unsigned[]> in, out;
  Crew crew;
  std::vector<unsigned> sums;  ///< of each thread
  unsigned sum = 0;
  std::optional<Registration> in_pinned, out_pinned;

  explicit Host(size_t n) : n(n), in(new unsigned[n]), out(new unsigned[n]), sums(crew.size()) {
    if (device_memory::Pretence::stands()) return;
    crew.share_out(n, [this](size_t from, size_t to) {  // first touched by those who use it
      for (size_t i = from; i < to; ++i) in[i] = number_at(i);
    });
    spoil();
  }
  void pin() {
    if (device_memory::Pretence::stands()) return;
    in_pinned.emplace(in.get(), 4 * n);
    out_pinned.emplace(out.get(), 4 * n);
  }

  void add_on_one_core(size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) out[i] = in[i] + 1;
  }
  void add() {
    crew.share_out(n, [this](size_t from, size_t to) { add_on_one_core(from, to); });
  }
  void add_up() {
    crew.run([this](size_t c) {
      const unsigned* const first = in.get() + n * c / crew.size();
      const unsigned* const end = in.get() + n * (c + 1) / crew.size();
      sums[c] = std::accumulate(first, end, 0u);
    });
    sum = std::accumulate(sums.begin(), sums.end(), 0u);
  }

  void spoil() {
    sum = ~sum_of_numbers(n);
    crew.share_out(
        n, [this](size_t from, size_t to) { std::fill(out.get() + from, out.get() + to, 0u); });
  }
  size_t wrong() {
    std::fill(sums.begin(), sums.end(), 0u);
    crew.run([this](size_t c) {
      for (size_t i = n * c / crew.size(); i < n * (c + 1) / crew.size(); ++i)
        sums[c] += out[i] != number_at(i) + 1;
    });
    return std::accumulate(sums.begin(), sums.end(), size_t(0));
  }
};
/// Threads cannot be moved, and their owner is passed on.
using SharedHost = Shared<std::unique_ptr<Host>>;
std::unique_ptr<Host> host_of(size_t n, bool pinned) {
  auto host = std::make_unique<Host>(n);
  if (pinned) host->pin();
  return host;
}

// ---- the card ----

/// The arrays of a host, and the same on the card.
struct Card {
  SharedHost host;
  size_t n;
  DeviceBuffer<unsigned> in, out, total;

  explicit Card(const SharedHost& host) : host(host), n((*host)->n), in(n), out(n), total(1) {}

  void fetch(size_t words) const {
    CUDA_CHECK(cudaMemcpy(in.data(), (*host)->in.get(), 4 * words, cudaMemcpyHostToDevice));
  }
  void bring_back(size_t words) const {
    CUDA_CHECK(cudaMemcpy((*host)->out.get(), out.data(), 4 * words, cudaMemcpyDeviceToHost));
  }
  void add() const { add_to_each<<<unsigned((n + 255) / 256), 256>>>(out.data(), in.data(), n); }
  void add_up() const {
    CUDA_CHECK(cudaMemsetAsync(total.data(), 0, sizeof(unsigned)));
    sum_numbers<<<1024, 256>>>(total.data(), in.data(), n);
  }
  void poison() {  // nothing that is on the card may be right before
    in.poison();
    out.poison();
    total.poison();
    (*host)->spoil();
  }
};

// [there_and_back]
void add_there_and_back(const Card& card) {
  card.fetch(card.n);
  card.add();
  card.bring_back(card.n);
}
// [/there_and_back]

void add_up_there(const Card& card) {
  card.fetch(card.n);
  card.add_up();
  CUDA_CHECK(
      cudaMemcpy(&(*card.host)->sum, card.total.data(), sizeof(unsigned), cudaMemcpyDeviceToHost));
}

// ---- tasks ----

Check check_sum(const SharedHost& host) {
  return {[host] { (*host)->sum = ~sum_of_numbers((*host)->n); },
          [host] { return size_t((*host)->sum != sum_of_numbers((*host)->n)); }, ""};
}
Check check_result(const SharedHost& host) {
  return {[host] { (*host)->spoil(); }, [host] { return (*host)->wrong(); }, ""};
}

Task add_on_all_cores(const Ref& ref, const SharedHost& host) {
  return {text(ref), [host] { (*host)->add(); }, check_result(host), true};
}
Task add_on_one_core(const Ref& ref, const SharedHost& host) {
  return {text(ref), [host] { (*host)->add_on_one_core(0, (*host)->n); }, check_result(host), true};
}
Task sum_on_all_cores(const Ref& ref, const SharedHost& host) {
  return {text(ref), [host] { (*host)->add_up(); }, check_sum(host), true};
}

Task carried_addition(const Ref& ref, const Shared<Card>& card) {
  return {text(ref),
          [card] { add_there_and_back(*card); },
          {[card] { card->poison(); }, [card] { return (*card->host)->wrong(); }, ""},
          true};
}
Task carried_sum(const Ref& ref, const Shared<Card>& card) {
  return {text(ref),
          [card] { add_up_there(*card); },
          {[card] { card->poison(); }, check_sum(card->host).wrong, ""},
          true};
}

/// Already on the card, where the results stay.
Task addition_on_card(const Ref& ref, const Shared<Card>& card) {
  const auto wrong = [card] {
    (*card->host)->spoil();
    card->bring_back(card->n);
    return (*card->host)->wrong();
  };
  const auto poison = [card] {
    card->fetch(card->n);
    card->out.poison();
  };
  return {text(ref), [card] { card->add(); }, {poison, wrong, ""}};
}
Task sum_on_card(const Ref& ref, const Shared<Card>& card) {
  const auto wrong = [card] { return size_t(card->total.to_host()[0] != sum_of_numbers(card->n)); };
  const auto poison = [card] {
    card->fetch(card->n);
    card->total.poison();
  };
  return {text(ref), [card] { card->add_up(); }, {poison, wrong, ""}};
}

/// A sixteenth of the way, for the link's rate: there or back.
Task part_of_the_way(const Ref& ref, const Shared<Card>& card, bool there) {
  const auto go = [card, there] {
    there ? card->fetch(card->n / 16) : card->bring_back(card->n / 16);
  };
  return {text(ref), go, unchecked("the whole way is"), true};
}

// ---- prediction ----

/// The way there and back, and the work on the card.
double carried_ms(double there_ms, double work_ms, double back_ms) {
  return there_ms + work_ms + back_ms;
}

/// An addition reads as many words as a sum, and writes as many. (A processor that fetched each
/// line before it writes it would move a third as many again: those measured here do not.)
constexpr double addition_over_sum = 2;

// ---- the experiment ----

/// Bytes of the host's last cache; 0 if it is not told.
double host_cache() { return std::max(0.0, double(sysconf(_SC_LEVEL3_CACHE_SIZE))); }

/// Words of each array at the most: 256 MiB, or as much as the host's last cache has, so that
/// neither stays there.
size_t most_words(const Run& run, double cache) {
  size_t n = size_t(1) << (run.quick ? 22 : 26);
  while (!run.quick && 4.0 * double(n) < cache && n < size_t(1) << 28) n *= 2;
  return n;
}

/// Two arrays of so many words fit on the GPU, and in what the host may pin.
size_t fitting_words(const Run& run, double cache) {
  const bool here = !run.device || run.device->number >= 0;
  const double room = std::min(run.memory_there(), here ? double(pinned_budget()) : INFINITY);
  return fitting_size("keep_on_device", 0, most_words(run, cache), room,
                      [](size_t n) { return 8.0 * double(n); });
}

/// Words of each array. The host decides them: a replay takes those that were recorded.
size_t ask_words(const Run& run) {
  const Statistics words = ask_host(run, "host", "words per array", "", [&run] {
    return single(double(fitting_words(run, host_cache())));
  });
  return std::isnan(words.median) ? fitting_words(run, 0) : size_t(words.median);
}

/// Whether the system lets the sample pin memory that exists; why not, else nothing.
std::string why_no_pinning(const Run& run) {
  const Statistics granted = ask(run, "registration", "granted", "", [] {
    std::vector<unsigned> some(1024);
    try {
      const Registration brief(some.data(), 4 * some.size());
      return single(1);
    } catch (const CudaError&) {
      return single(0);
    }
  });
  return granted.median == 0 ? "the system refuses to pin the arrays" : "";
}

std::vector<Shown> columns() {
  return {milliseconds(3), spread(), in_unit(measured("GB/s", "rate", "GB/s", 1), gbs_of)};
}

}  // namespace

void run_carried(const Run& run) {
  const size_t n = ask_words(run);
  ask_host(run, "host", "last cache", "bytes", [] { return single(host_cache()); });
  const double bytes = 4.0 * double(n);
  const std::string no_pinning = why_no_pinning(run);

  Sheet parts(run, "one operation per word, " + bytes_text(bytes), columns());
  parts.add({.ref = name_of<add_to_each>(),
             .words = "already on the card",
             .bytes = 2 * bytes,
             .calibrates = true});
  parts.add({.ref = name_of<sum_numbers>(),
             .words = "sum, already on the card",
             .bytes = bytes,
             .calibrates = true});
  parts.add({.ref = "pageable_there_and_back",
             .words = "carried from pageable memory",
             .bytes = 2 * bytes});
  parts.add(
      {.ref = "add_on_one_core", .words = "host, one core", .bytes = 2 * bytes, .on_host = true});
  {
    SharedByTasks host([n] { return host_of(n, false); });
    SharedByTasks card([&] { return Card(host()); });
    parts.measure(Timing::alone, [&](const Row& row) {
      const std::string& key = row.ref.key;
      if (key == name_of<add_to_each>()) return addition_on_card(row.ref, card());
      if (key == name_of<sum_numbers>()) return sum_on_card(row.ref, card());
      if (key == "pageable_there_and_back") return carried_addition(row.ref, card());
      return add_on_one_core(row.ref, host());
    });
  }
  parts.print();

  Sheet judged(run, "the same from pinned memory, and on the host", columns());
  for (const char* key : {"sixteenth_there", "sixteenth_back"})
    judged.add({.ref = key,
                .words = key == std::string("sixteenth_there") ? "pinned, a sixteenth there"
                                                               : "pinned, a sixteenth back",
                .bytes = bytes / 16,
                .calibrates = true,
                .missing = no_pinning});
  judged.add({.ref = "carried_addition",
              .words = "carried from pinned memory",
              .bytes = 2 * bytes,
              .missing = no_pinning});
  judged.add({.ref = "add_on_all_cores",
              .words = "host, all cores",
              .bytes = 2 * bytes,
              .on_host = true,
              .model = Model::host});
  judged.add({.ref = "carried_sum",
              .words = "sum, carried from pinned memory",
              .bytes = bytes,
              .missing = no_pinning});
  judged.add({.ref = "sum_on_all_cores",
              .words = "host's sum, all cores",
              .bytes = bytes,
              .calibrates = true,
              .on_host = true});
  SharedByTasks host([&] { return host_of(n, run.device && no_pinning.empty()); });
  SharedByTasks card([&] { return Card(host()); });
  judged.measure(Timing::regrouped, [&](const Row& row) {
    const std::string& key = row.ref.key;
    if (key == "carried_addition") return carried_addition(row.ref, card());
    if (key == "carried_sum") return carried_sum(row.ref, card());
    if (key == "add_on_all_cores") return add_on_all_cores(row.ref, host());
    if (key != "sum_on_all_cores")
      return part_of_the_way(row.ref, card(), key == "sixteenth_there");
    return sum_on_all_cores(row.ref, host());
  });
  judged.predict([&](const Row& row) {
    const double there = 16 * judged.ms("sixteenth_there"), back = 16 * judged.ms("sixteenth_back");
    if (row.ref.key == "carried_addition")
      return carried_ms(there, judged.ms(name_of<add_to_each>()), back);
    if (row.ref.key == "carried_sum")
      return carried_ms(there, judged.ms(name_of<sum_numbers>()), 0);
    return addition_over_sum * judged.ms("sum_on_all_cores");
  });
  judged.print();
  if (run.device && run.device->number >= 0 && no_pinning.empty())
    require_possible("there and back", 2 * bytes * 1e-6 / judged.ms("carried_addition"),
                     link_gbs(run.device->prop));
  run.report.note("the host's threads, one per core, exist before the clock starts");
}

Claim carried_claim(const Run& run) {
  const double cache = run.results->value("host", "last cache").value.median;
  const double bytes = (*run.results)("carried_sum").bytes;
  return {.part = {"02.10", "work of one operation per word is not worth carrying to the card",
                   "not much sense, no figure", "8800 GTX"},
          .rule = beats(),
          .pairs = {{.slow = "carried_addition", .fast = "add_on_all_cores"}},
          .unless = run.device && bytes < cache
                        ? "the host's cache of " + bytes_text(cache) + " may keep the arrays"
                        : std::string(),
          .found = {{.slow = "carried_sum", .fast = "sum_on_all_cores"}}};
}

double carried_bytes(const Run& run) {
  return 8.0 * double(fitting_words(run, 0));  // a host with a larger cache takes what fits
}

void add_carried_tasks(std::vector<Checked>& all, size_t n) {
  const SharedHost host(host_of(n, false));
  const Shared card(Card{host});
  const auto result = [&](const Task& task) {
    all.push_back(
        {.task = task, .elements = n, .change_one = [host, card] {
           ++(*host)->out[0];
           CUDA_CHECK(cudaMemcpy(card->out.data(), (*host)->out.get(), 4, cudaMemcpyHostToDevice));
         }});
  };
  const auto sum = [&](const Task& task) {
    all.push_back({.task = task, .elements = 1, .change_one = [host, card] {
                     const unsigned other = ++(*host)->sum;
                     CUDA_CHECK(cudaMemcpy(card->total.data(), &other, 4, cudaMemcpyHostToDevice));
                   }});
  };
  result(carried_addition("carried_addition", card));
  result(addition_on_card(name_of<add_to_each>(), card));
  result(add_on_all_cores("add_on_all_cores", host));
  result(add_on_one_core("add_on_one_core", host));
  sum(carried_sum("carried_sum", card));
  sum(sum_on_card(name_of<sum_numbers>(), card));
  sum(sum_on_all_cores("sum_on_all_cores", host));
}
