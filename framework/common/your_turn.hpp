// Exercises (your_turn/ of each topic): what a file registers, how it is checked, what the check
// says. Each exercise is a program. What the reader wrote runs in a process of its own, so that an
// answer that crashes, never ends, starts processes or breaks the GPU gets one line like any other,
// and leaves nothing behind. your_turn_gpu.hpp has what only kernels need.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace your_turn {

// ---- what a check says: it returns if all is done, else throws one of these ----

/// Exit code 3: something is wrong.
class NotYet : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exit code 4: all is right, but it could be cheaper.
class Dear : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exit code 77: it cannot be checked here.
class Skipped : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Says what runs from here on. If that crashes, or has not ended after ten seconds (`longer` times
/// as many where the check itself has much to do), the answer names it: "n = 1009: does not end
/// within 10 s".
void watch(const std::string& what, int longer = 1);

/// Counts what is wrong, and keeps the first of it.
class Wrong {
 public:
  explicit Wrong(std::string what, std::string things = "words")
      : what_(std::move(what)), things_(std::move(things)) {}
  /// One of them is as it should be, or it is not, and `first()` says why.
  template <class Text>
  void add(bool right, const Text& first) {
    ++all_;
    if (right) return;
    if (wrong_++ == 0) first_ = first();
  }
  /// Throws NotYet if any was wrong: "n = 33: 2 of 99 words are wrong, the first at 31: ...".
  void require_none() const;

 private:
  std::string what_, things_, first_;
  size_t all_ = 0, wrong_ = 0;
};

/// Compares all words; throws NotYet with `what`, how many are wrong, and the first of them. A word
/// that equals `poison` was never written.
void require_equal(const std::string& what, const std::vector<unsigned>& found,
                   const std::vector<unsigned>& expected, unsigned poison);

/// One of the numbers that an exercise asks to predict.
struct Predicted {
  std::string of;
  double yours, right;
  std::string consider;  ///< if it is wrong; it is not to say what is right
  double share = 0;      ///< of what is right, by which it may be off
};

/// Throws NotYet with the first that is wrong: "in[i + 1]: not 4; in which sectors ...?".
void require_predicted(const std::vector<Predicted>& all);

/// "31 x 33".
std::string sides(size_t nx, size_t ny);

/// Numbers without a pattern: no few of them stand in for others.
inline unsigned number_at(size_t i) {
  unsigned x = (static_cast<unsigned>(i) + 1) * 0x9e3779b1u;
  x = (x ^ x >> 15) * 0x85ebca6bu;
  return x ^ x >> 13;
}

// ---- what a warp's request costs. The rules of 03_access_patterns/transactions.hpp and
// 06_shared_reduce/banks.hpp, for words of 4 bytes; tests there hold them together ----

/// The index of the word that each lane of a warp wants, in an array that begins on a sector.
using WarpWords = std::array<long long, 32>;
inline constexpr long long idle = -1;

/// Sectors of 32 bytes in which these words lie: what the memory moves for one request.
int sectors(const WarpWords& words);

/// Passes through the 32 banks of shared memory that one request takes.
int wavefronts(const WarpWords& words);

// ---- registration ----

/// Whose answer it is. The reader's and the solution stand in files of the same name, the latter in
/// solutions/; the collection's tests hand in what is wrong or dear.
enum class Author { reader, solution, test };

/// One answer to an exercise.
struct Entry {
  std::string exercise;  ///< "points"
  std::string name;      ///< the same, or of a test "points_struct"
  Author author;

  /// `test` is empty for the reader's and the solution.
  Entry(const std::string& exercise, const std::string& file, const std::string& test);
  virtual ~Entry() = default;
  /// Throws unless it is done. `solution` is of the same exercise.
  virtual void check(const Entry& solution) const = 0;
};

/// What is handed in (functions, kernels), and what checks it, beside the solution's.
template <class Work>
struct Answer final : Entry {
  using Check = void (*)(const Work& work, const Work& solution);
  Work work;
  Check checked_by;

  Answer(const char* exercise, const char* file, const char* test, Check checked_by,
         const Work& work)
      : Entry(exercise, file, test), work(work), checked_by(checked_by) {}
  void check(const Entry& solution) const override {
    checked_by(work, static_cast<const Answer&>(solution).work);
  }
};

/// What the reader wrote runs in a process of its own, from the constructors of its global
/// variables on: to be called before them. It returns in that process, and nowhere else: the other
/// one watches it, says the verdict on `exercise`, and ends with the exit code.
void watch_from_the_start(const char* exercise);

/// The work of the watched process: reads the command line, and checks.
[[noreturn]] void run(int argc, char** argv);

}  // namespace your_turn

/// At the end of an exercise: YOUR_TURN(points, Points, {words_for, word_of}) hands what was
/// written to check_points(const Points&, const Points&).
#define YOUR_TURN(exercise, Work, ...)                                                        \
  static const your_turn::Answer<Work> your_answer(#exercise, __FILE__, "", check_##exercise, \
                                                   Work __VA_ARGS__)

/// In tests/points.cu, in a namespace of its own: an answer that has to be found wrong, or dear.
#define YOUR_TURN_TEST(exercise, test, Work, ...)                                                \
  static const your_turn::Answer<Work> your_answer(#exercise, __FILE__, #test, check_##exercise, \
                                                   Work __VA_ARGS__)
