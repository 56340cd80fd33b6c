// Self-checks of overlap.cu, compiled in its place where BUILD_TESTING is on.
#include "../overlap.cu"

#include <chrono>

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

TEST_CASE("overlap: chunks cover every word once") {
  for (const size_t n : {1, 2, 31, 1009, 1000003})
    for (const int chunks : {1, 2, 3, 32, 64, most_chunks}) {
      CHECK(chunk_begin(n, chunks, chunks - 1) < n);  // the last one, which is waited for, has one
      CHECK(chunk_begin(n, chunks, 0) == 0);
      CHECK(chunk_begin(n, chunks, chunks) == n);
      for (int i = 0; i < chunks; ++i) {  // n / chunks, rounded down or up
        const size_t count = chunk_begin(n, chunks, i + 1) - chunk_begin(n, chunks, i);
        CHECK(count - n / chunks <= (n % chunks > 0));
      }
    }
}

TEST_CASE("overlap: predicted time goes from the sum of the stages to the slowest, by hand") {
  for (const int k : {1, 2, 3, 32, 1000}) {
    CHECK(predicted_ms({1, 1, 1}, k) == doctest::Approx((k + 2.0) / k));
    CHECK(predicted_ms({2, 1, 3}, k) == doctest::Approx(3 + 2.0 / k));
    CHECK(predicted_ms({1, 5, 1.2}, k) == doctest::Approx(5 + 2.0 / k));  // the kernel is slowest
  }
  const Constants c{1, 0.5, 1.2};
  CHECK(end_ms(c, 4, copy_in, 0) == doctest::Approx(0.25));
  CHECK(end_ms(c, 4, copy_in, 3) == doctest::Approx(1.15));
  CHECK(end_ms(c, 4, kernel, 0) == doctest::Approx(0.375));
  CHECK(end_ms(c, 4, copy_out, 3) == doctest::Approx(1.525));
  CHECK(end_ms({1, 5, 1.2}, 4, copy_in, 3) == doctest::Approx(1.15));  // waits for no kernel
  CHECK(predicted_ms(scaled(c, 0.25), 4) == doctest::Approx(1.525 / 4));
}

TEST_CASE("overlap: the model and what an H200 took over PCIe 5") {
  const Constants c{9.696, 4.296, 10.66};  // 512 MiB
  const double took[][2] = {{1, 23.74},  {2, 16.96},  {4, 13.80}, {8, 12.22},
                            {16, 11.45}, {32, 11.11}, {64, 11.04}};
  for (const auto& [chunks, ms] : took)
    CHECK(ms == doctest::Approx(predicted_ms(c, int(chunks))).epsilon(0.02));
  const double ended[][3] = {{2.436, 3.533, 6.202},
                             {4.931, 6.021, 8.863},
                             {7.528, 8.612, 11.40},
                             {10.12, 11.21, 13.83}};  // in four chunks
  for (const Stage s : {copy_in, kernel, copy_out})
    for (int chunk = 0; chunk < 4; ++chunk)
      CHECK(ended[chunk][s] == doctest::Approx(end_ms(c, 4, s, chunk)).epsilon(0.05));
}

TEST_CASE("overlap: arrays fit made-up GPUs, and hosts that have less to pin") {
  for (const double host : {double(INFINITY), 1e9})
    check_on_made_up_devices([host](const Run& run) {
      const double bytes = bytes_in_all(array_bytes(run, 0, host));
      CHECK(bytes <= 0.9 * host);
      return Needs{bytes};
    });
}

TEST_CASE("overlap: a lane of the timeline") {
  const std::vector<Span> spans{
      {copy_in, 0, 0, 2.5}, {kernel, 0, 2.5, 2.6}, {copy_in, 11, 2.5, 5}, {kernel, 1, 9.99, 10}};
  CHECK(lane(spans, copy_in, 10, 8) == "0011    ");
  CHECK(lane(spans, kernel, 10, 8) == "  0    1");  // however short, a column
}

TEST_CASE("overlap: the reference, by hand, finds one wrong word") {
  CHECK(hashed_by_host(7, 0) == 7);
  CHECK(hashed_by_host(0, 1) == 0x3c6ecf31u);  // 1013904223 is 0x3c6ef35f
  std::vector<unsigned> words(3 * period + 5);
  fill(words.data(), words.size());
  for (size_t i = 0; i < words.size(); ++i) REQUIRE(words[i] == input(i));
  CHECK(wrong_words(words.data(), words.size(), 0) == 0);
  words.back() ^= 1;
  words[period] ^= 1;
  CHECK(wrong_words(words.data(), words.size(), 0) == 2);
}

namespace {

/// Keeps a stream waiting for as long as none of these small copies takes.
void hold_up(cudaStream_t stream) {
  const auto nap = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  CUDA_CHECK(cudaLaunchHostFunc(stream, nap, nullptr));
}

}  // namespace

TEST_CASE("overlap: a timeline's spans begin with the pipeline") {
  if (skip_without_gpu()) return;
  const Trip trip(Kind::pinned, 1000003, 5);
  for (const Span& span : trip.p.spans(8)) {
    CHECK(span.start >= 0);
    CHECK(span.end >= span.start);
  }
}

TEST_CASE("overlap: pageable and registered memory carry the same") {
  if (skip_without_gpu()) return;
  for (const Kind kind : {Kind::pageable, Kind::registered})
    for (const size_t n : {1, 31, 1009, 1000003}) try {
        const Shared trip(Trip(kind, n, 5));
        CHECK(is_pinned(trip->p.from) == (kind == Kind::registered));
        for (const double k : {1, few_chunks, 31})
          CHECK(wrong_after(whole_task({"pipeline", k}, trip)) == 0);
      } catch (const CudaError& refused) {
        if (refused.call.find("cudaHostRegister") == std::string::npos) throw;
        MESSAGE("not registered: " << refused.what());
      }
}

TEST_CASE("overlap: whichever stream is late, the default stream waits for it") {
  if (skip_without_gpu()) return;
  const Shared trip(Trip(Kind::pinned, 65537, 5));
  const Pipeline& p = trip->p;
  std::vector<Task> tasks;
  for (const double k : {1, 4}) tasks.push_back(whole_task({"pipeline", k}, trip));
  for (const int k : {1, 4}) tasks.push_back(both_task("both_copies", trip, k));
  const cudaStream_t late[] = {p.streams[copy_in], p.streams[kernel], p.streams[copy_out], nullptr};
  for (const cudaStream_t stream : late) {
    for (const Task& task : tasks) {
      INFO(task.name);
      CUDA_CHECK(cudaDeviceSynchronize());
      Task held = task;
      // of the default stream what comes late is the poison, which must not come after the result
      if (stream == nullptr)
        held.check.poison = [&] {
          hold_up(nullptr);
          task.check.poison();
        };
      else
        held.launch = [&] {
          CUDA_CHECK(cudaDeviceSynchronize());
          hold_up(stream);
          task.launch();
        };
      CHECK(wrong_after(held) == 0);
    }
  }
  CUDA_CHECK(cudaDeviceSynchronize());
}

/// A stream that waits until it is let go, or for at most a time: then whoever tries must go on.
struct Gate {
  std::atomic<bool> open{false};
  std::chrono::steady_clock::time_point end;

  Gate(cudaStream_t stream, std::chrono::milliseconds longest)
      : end(std::chrono::steady_clock::now() + longest) {
    const auto wait = [](void* data) {
      const Gate& gate = *static_cast<Gate*>(data);
      while (!gate.open && std::chrono::steady_clock::now() < gate.end) std::this_thread::yield();
    };
    CUDA_CHECK(cudaLaunchHostFunc(stream, wait, this));
  }
  bool was_too_long() const { return std::chrono::steady_clock::now() >= end; }
};

/// Under a tool that looks at each launch, streams may wait for one another.
bool streams_wait_for_one_another(cudaStream_t stream, unsigned* device) {
  Gate gate(stream, std::chrono::milliseconds(500));
  const DeviceBuffer<unsigned> words(32);
  CUDA_CHECK(cudaMemcpy(words.data(), device, 32 * sizeof(unsigned), cudaMemcpyDeviceToDevice));
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
  const bool waited = gate.was_too_long();
  gate.open = true;
  CUDA_CHECK(cudaDeviceSynchronize());
  return waited;
}

TEST_CASE("overlap: the check waits for the default stream and no other") {
  if (skip_without_gpu()) return;
  const Shared trip(Trip(Kind::pinned, 65537, 5));
  const Pipeline& p = trip->p;
  const cudaStream_t stream = p.streams[copy_out];
  DeviceBuffer<unsigned> some(32);
  some.poison();
  if (streams_wait_for_one_another(stream, some.data()))
    return skip_self_check("streams wait for one another");
  Task late = stage_task("copy_out", trip);
  std::optional<Gate> gate;
  late.launch = [&] {
    CUDA_CHECK(cudaDeviceSynchronize());
    gate.emplace(stream, std::chrono::seconds(10));
    p.work(copy_out, 0, p.n, stream);
  };
  const size_t wrong = wrong_after(late);
  gate->open = true;
  CUDA_CHECK(cudaDeviceSynchronize());
  CHECK(wrong == p.n);
}

EXPERIMENT_CHECKS(overlap)
