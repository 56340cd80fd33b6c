// Self-checks of what every sample includes. Here: errors, the command line, the output file and
// counts of a run; the others lie in *_checks.cu beside this file.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "../command_line.hpp"
#include "../counters.hpp"
#include "../files.hpp"
#include "counts.hpp"

int main(int argc, char** argv) {
  return run_sample({.topic = "common", .about = "Self-checks of common/", .experiments = {}}, argc,
                    argv);
}

namespace fs = std::filesystem;

namespace {

/// A folder of its own, removed with all that is in it.
class Folder {
 public:
  Folder() {
    // a path with a space and a letter that is not ASCII
    std::string pattern = (fs::temp_directory_path() / "samples ü XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  fs::path operator/(const char* name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  auto entries() const { return std::distance(fs::directory_iterator(path_), {}); }
  /// Writes a file and returns its path.
  std::string write(const char* name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

// ---- errors ----------------------------------------------------------------------------------

TEST_CASE("errors: a failed call names itself, its place and its reason") {
  try {
    CUDA_CHECK(cudaErrorInvalidValue);
    FAIL("no exception");
  } catch (const CudaError& error) {
    CHECK(error.code == cudaErrorInvalidValue);
    CHECK(error.call == "cudaErrorInvalidValue");
    CHECK(error.name() == "cudaErrorInvalidValue");
    const std::string what = error.what();
    CHECK(what ==
          "cudaErrorInvalidValue failed: cudaErrorInvalidValue (invalid argument) at "
          "common.cu:" +
              std::to_string(error.line));
  }
  CHECK_NOTHROW(CUDA_CHECK(cudaSuccess));
  CHECK_THROWS_WITH_AS(require_right(false, "x"), "wrong result: x", WrongResult);
  CHECK_NOTHROW(require_right(true, "x"));
  CHECK(cuda_version_text(13000) == "13.0");
  CHECK(cuda_version_text(12040) == "12.4");
}

TEST_CASE("errors: one that was reported is not reported again") {
  if (skip_without_gpu()) return;
  CHECK_NOTHROW(CUDA_CHECK_LAUNCH());
  CHECK_THROWS_AS(CUDA_CHECK(cudaSetDevice(9999)), CudaError);
  CHECK_NOTHROW(CUDA_CHECK_LAUNCH());
}

// ---- the command line ------------------------------------------------------------------------

TEST_CASE("command line: plain decimal numbers only") {
  CHECK(parse_number("x", "1", 1, 100) == 1);
  CHECK(parse_number("x", "100", 1, 100) == 100);
  CHECK(parse_number("x", "007", 1, 100) == 7);
  for (const char* wrong : {"", "0", "-1", "+1", "101", "abc", "1e3", "0x10", "3x", "1,2", " 1",
                            "1 ", "1.0", "18446744073709551616"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_number("x", wrong, 1, 100), UsageError);
  }
  CHECK_THROWS_WITH_AS(parse_number("--size", "3x", 1, 9),
                       "--size: '3x' is not a whole number from 1 to 9", UsageError);
}

TEST_CASE("command line: an experiment is given the topic's options") {
  struct Options {
    int size = 3;
    mutable int given = 0;
  };
  Options options;
  void (*const experiment)(const Run&, const Options&) = [](const Run&, const Options& options) {
    options.given = options.size;
  };
  std::string printed;
  Report report("topic", &printed);
  const auto run = with(options, experiment);
  options.size = 4;  // typed, after the list of experiments was made
  run(Run{report, nullptr, {}});
  CHECK(options.given == 4);
  void (*const left_out)(const Run&, const Options&) = nullptr;
  CHECK(!with(options, left_out));
}

TEST_CASE("command line: what was typed is checked before anything is run, where it is heeded") {
  std::string calls;
  const auto run_line = [&](std::vector<std::string> words, bool fits = true) {
    calls.clear();
    const auto check = [&](const char* name) {
      return [&calls, fits, name](const Run&) {
        calls += std::string("check ") + name + ", ";
        if (!fits) throw UsageError("it does not fit");
      };
    };
    const auto run = [&](const char* name) {
      return [&calls, name](const Run&) { calls += std::string("run ") + name + ", "; };
    };
    words.insert(words.begin(), "topic");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return run_sample({.topic = "topic",
                       .about = "",
                       .experiments = {{"a", "", run("a"), check("a")},
                                       {"b", "", run("b"), check("b")},
                                       {"c", "", run("c")}},
                       .options = {{"size", "", "", {"b", "c"}, [](const std::string&) {}}}},
                      int(arguments.size()), arguments.data());
  };
  CHECK(run_line({}) == exit_code::success);
  CHECK(calls == "run a, run b, run c, ");
  CHECK(run_line({"--size", "1"}) == exit_code::success);
  CHECK(calls == "check b, run a, run b, run c, ");
  CHECK(run_line({"--size", "1", "a"}) == exit_code::success);  // without effect, and said
  CHECK(calls == "run a, ");
  CHECK(run_line({"--size", "1"}, false) == exit_code::usage);
  CHECK(calls == "check b, ");
  CHECK(run_line({"--size", "1", "c", "a"}, false) == exit_code::success);
  CHECK(calls == "run c, run a, ");
}

// ---- files -----------------------------------------------------------------------------------

TEST_CASE("output file: replaced whole, behind links, or as it was") {
  const Folder folder;
  const fs::path file = folder / "out.csv";
  write_whole(file.string(), "first");
  CHECK(text_of(file) == "first");
  fs::create_symlink(file, folder / "link");
  write_whole((folder / "link").string(), "second");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(text_of(file) == "second");
  const std::string longest(255, 'n');
  write_whole((folder / longest.c_str()).string(), "long");
  CHECK(text_of(folder / longest.c_str()) == "long");
  CHECK_THROWS_AS(write_whole((folder / (longest + "n").c_str()).string(), "x"),
                  std::runtime_error);
  CHECK_THROWS_AS(write_whole("/dev/full", "x"), std::runtime_error);
  CHECK_NOTHROW(write_whole("/dev/null", "x"));
  CHECK(folder.entries() == 3);
}

TEST_CASE("output file: what cannot be written is refused before it is, and nothing is left") {
  const Folder folder;
  folder.write("kept", "kept");
  fs::create_symlink("nowhere", folder / "dangling");
  fs::create_symlink("loop", folder / "loop");
  const auto refused = [&](const std::string& path) {
    CAPTURE(path);
    CHECK_THROWS_AS(require_usable({{"--csv", path, true}}), std::runtime_error);
    CHECK_THROWS_AS(write_whole(path, "x"), std::runtime_error);
  };
  for (const char* name : {"dangling", "loop", "new/", "none/x", "kept/x", "."})
    refused((folder / name).string());
  refused("");
  CHECK_NOTHROW(require_usable({{"--csv", (folder / "kept").string(), true}}));
  CHECK_NOTHROW(require_usable({{"--csv", (folder / "new").string(), true}}));
  CHECK(text_of(folder / "kept") == "kept");
  CHECK(folder.entries() == 3);
}

TEST_CASE("output file: mode as before, or as the umask gives it") {
  const Folder folder;
  const fs::path file = folder / "file";
  const mode_t before = umask(027);
  write_whole(file.string(), "new");
  CHECK(fs::status(file).permissions() == fs::perms(0640));
  fs::permissions(file, fs::perms(0604));
  write_whole(file.string(), "replaced");
  CHECK(fs::status(file).permissions() == fs::perms(0604));
  umask(before);
}

TEST_CASE("input file: read to its end, or refused") {
  const Folder folder;
  for (const size_t n : {0, 1, 65535, 65536, 65537, 1000003}) {
    CAPTURE(n);
    std::string text(n, 'x');
    for (size_t i = 0; i < n; ++i) text[i] = char(i * 7);
    const std::string path = folder.write("file", text);
    const std::vector<char> bytes = read_input("--file", path, n);
    CHECK(std::string(bytes.begin(), bytes.end()) == text);
    if (n) CHECK_THROWS_AS(read_input("--file", path, n - 1), UsageError);
  }
  CHECK(!read_input("--file", "/proc/self/status", 1 << 20).empty());  // its size is said to be 0
  const std::string sparse = folder.write("sparse", "");
  fs::resize_file(sparse, uintmax_t(1) << 40);
  CHECK_THROWS_WITH_AS(read_input("--file", sparse, 1 << 20),
                       ("--file: cannot read '" + sparse + "': it has more than 1 MiB").c_str(),
                       UsageError);
  for (const char* wrong : {"/no such file", "/", "/dev/zero", "/dev/null", ""})
    CHECK_THROWS_AS(read_input("--file", wrong, 100), UsageError);
}

TEST_CASE("files: an output that is another file of the run is refused, by whatever link") {
  const Folder folder;
  const std::string file = folder.write("file", "x"), other = folder.write("other", "x");
  fs::create_symlink(file, folder / "link");
  fs::create_hard_link(file, folder / "hard link");
  const std::string inside = folder.path().string() + "/./file";
  const auto refused = [&](const NamedFile& a, const NamedFile& b) {
    CAPTURE(b.path);
    CHECK_THROWS_AS(require_usable({a, b}), UsageError);
    CHECK_THROWS_AS(require_usable({b, a}), UsageError);
  };
  for (const std::string& same :
       {file, inside, (folder / "link").string(), (folder / "hard link").string()}) {
    refused({"--csv", file, true}, {"--text", same});
    refused({"--csv", same, true}, {"--output", file, true});
    CHECK_NOTHROW(require_usable({{"--text", file}, {"--counters", same}}));
  }
  refused({"--csv", (folder / "new").string(), true},
          {"--output", folder.path().string() + "/../" + folder.path().filename().string() + "/new",
           true});
  CHECK_NOTHROW(require_usable({{"--csv", file, true}, {"--output", other, true}}));
}

TEST_CASE("files: a name is printed in one line") {
  CHECK(printable("zahlen – 1.csv") == "zahlen – 1.csv");
  CHECK(printable("two\nlines\x7f") == "two\\x0alines\\x7f");
}

// ---- counts of a run -------------------------------------------------------------------------

namespace {

/// How the first line of a file ends that was counted with this program: FNV-1a, 64 bits, of its
/// bytes.
std::string this_program() {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char byte : text_of("/proc/self/exe")) hash = (hash ^ byte) * 1099511628211u;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash >> shift & 15];
  return ", program " + digits;
}

constexpr const char* counts =
    "kernel,parameter,metric,value\n"
    "copy,1024 x 1024,sectors.sum,4096\n"
    "copy,32 x 32,sectors.sum,128\n";

}  // namespace

TEST_CASE("counts: the model's counters by Nsight Compute's names") {
  CHECK(expected_requests(true, 5).metric == "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum");
  CHECK(expected_requests(true, 5).value == 5);
  CHECK(expected_sectors(false, 6).metric == "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum");
  CHECK(expected_sectors(false, 6).what == "st sectors");
  CHECK(expected_wavefronts(true, 7).metric ==
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum");
}

TEST_CASE("counts: a file that cannot be read, or of another program, is refused") {
  const Folder folder;
  const std::string gpu = "# gpu GPU-00000000-0000-0000-0000-000000000000";
  const bool has_gpu = no_gpu_reason().empty();
  const std::string path = (folder / "counters.csv").string();
  CHECK_THROWS_WITH_AS(
      counters::take_file(path, has_gpu),
      ("--counters: cannot read '" + path + "': No such file or directory").c_str(), UsageError);
  CHECK_THROWS_AS(counters::take_file("/dev/zero", has_gpu), UsageError);
  CHECK_THROWS_AS(counters::take_file(folder.path().string(), has_gpu), UsageError);
  const auto refused = [&](const std::string& begin) {
    const std::string file = folder.write("counters.csv", begin + counts);
    CHECK_THROWS_AS(counters::take_file(file, has_gpu), UsageError);
  };
  folder.write("counters.csv", "");
  CHECK_THROWS_AS(counters::take_file(path, has_gpu), UsageError);
  refused("");
  refused("# gpu GPU-0, program 0\n");
  refused(gpu + ", program 0123456789abcdef\n");
  refused(gpu + this_program() + "0\n");
  refused("gpu" + this_program() + "\n");
  if (has_gpu) refused(gpu + this_program() + "\n");
}

TEST_CASE("counts: without a GPU those of this program are neither refused nor used") {
  if (counted_in_this_run()) return skip_self_check("--counters was given");
  const Folder folder;
  const std::string line = "# gpu GPU-00000000-0000-0000-0000-000000000000" + this_program();
  CHECK_NOTHROW(counters::take_file(folder.write("counters.csv", line + "\n" + counts), false));
  CHECK(!counted_in_this_run());
  CHECK(std::isnan(count_of_this_run("copy", "32 x 32", "sectors.sum")));
}

TEST_CASE("counts: those of this program on this GPU are used") {
  if (skip_without_gpu()) return;
  CHECK(counters::identity() == Device::current().uuid() + this_program());
  const Folder folder;
  const std::string line = "# gpu " + counters::identity() + "\n";
  counters::take_file(folder.write("counters.csv", line + counts), true);
  CHECK(counted_in_this_run());
  CHECK(count_of_this_run("copy", "1024 x 1024", "sectors.sum") == 4096);
  CHECK(count_of_this_run("copy", "32 x 32", "sectors.sum") == 128);
  CHECK(std::isnan(count_of_this_run("copy", "32 x 32", "requests.sum")));
  CHECK(std::isnan(count_of_this_run("copy", "32", "sectors.sum")));
  CHECK(std::isnan(count_of_this_run("kernel", "parameter", "metric")));

  // another GPU's are refused, and those that were taken stay
  std::string other = line;
  char& digit = other[line.find("GPU-") + 4];
  digit = digit == '0' ? '1' : '0';
  CHECK_THROWS_AS(counters::take_file(folder.write("other.csv", other + counts), true), UsageError);
  CHECK(count_of_this_run("copy", "32 x 32", "sectors.sum") == 128);
  std::vector<CountedLaunch> all;
  all.push_back({"copy", "32 x 32", {{"sectors", "sectors.sum", 128}}, {}});
  compare_with_counts_of_this_run(all);
}

TEST_CASE("counts: recorded ones test the model, and without them the case is skipped") {
  const Folder folder;
  const std::string file = folder.write("counters.csv", counts);
  std::vector<CountedLaunch> all;
  all.push_back({"copy", "1024 x 1024", {{"sectors", "sectors.sum", 4096}}, {}});
  all.push_back({"copy", "32 x 32", {{"sectors", "sectors.sum", 127.6}}, {}});  // a mean, rounded
  compare_with_recorded_counts(all, file);
  CHECK(!self_check_skipped);
  compare_with_recorded_counts(all, (folder / "none.csv").string());
  CHECK(self_check_skipped);
  self_check_skipped = false;
  CHECK(results_file("x.csv").empty());
  CHECK(results_folder("sources", "no such folder") == "sources");
  CHECK(results_folder("sources", ".") != "sources");
}
