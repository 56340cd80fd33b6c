// Checks tile.cu: does on the host what the kernel would do, word by word, and counts what each
// warp's requests cost.
#include <algorithm>

#include "tile.hpp"

namespace {

using your_turn::NotYet;
using your_turn::WarpWords;

constexpr unsigned side = 32, rows_at_once = 8, steps = side / rows_at_once;
constexpr unsigned most_tile_words = 2 * side * side;

struct Shape {
  unsigned nx, ny;
  size_t words() const { return size_t(nx) * ny; }
};

std::string named(const Thread& t, unsigned step) {
  return "block (" + std::to_string(t.bx) + ", " + std::to_string(t.by) + "), thread (" +
         std::to_string(t.tx) + ", " + std::to_string(t.ty) + "), step " + std::to_string(step);
}

/// The most that a request of a warp takes.
struct Cost {
  int load = 0, store = 0;  ///< sectors
  int write = 0, read = 0;  ///< wavefronts, of the tile
};

/// One launch on the host.
class Launch {
 public:
  Launch(const Tile& yours, Shape m)
      : yours_(yours), m_(m), what_(your_turn::sides(m.nx, m.ny)), out_(m.words(), nothing) {}

  void run() {
    your_turn::watch(what_);
    for (unsigned by = 0; by * side < m_.ny; ++by)
      for (unsigned bx = 0; bx * side < m_.nx; ++bx) block(bx, by);
  }

  /// Throws NotYet with the first word of the output that is wrong.
  void require_right() const {
    your_turn::Wrong wrong(what_, "words");
    for (size_t i = 0; i < out_.size(); ++i) {
      const unsigned row = unsigned(i / m_.ny), column = unsigned(i % m_.ny);  // of the output
      const size_t expected = size_t(column) * m_.nx + row;
      wrong.add(out_[i] == expected, [&] {
        return "at row " + std::to_string(row) + ", column " + std::to_string(column) +
               " of the output: expected word " + std::to_string(expected) +
               " of the input, found " +
               (out_[i] == nothing ? "nothing" : "word " + std::to_string(out_[i]));
      });
    }
    wrong.require_none();
  }

  const Cost& cost() const { return cost_; }

 private:
  static constexpr size_t nothing = ~size_t(0);

  void block(unsigned bx, unsigned by) {
    std::vector<size_t> tile(yours_.tile_words, nothing);  // which word of the input lies there
    for (unsigned step = 0; step < steps; ++step)
      for (unsigned ty = 0; ty < rows_at_once; ++ty) {
        WarpWords memory, shared;
        for (unsigned tx = 0; tx < side; ++tx) {
          const Thread t{bx, by, tx, ty};
          const Move move = yours_.load(t, step, m_.nx, m_.ny);
          require_inside(move, t, step, "loads", "input");
          note(move, tx, memory, shared);
          if (move.memory < 0) continue;
          if (tile[move.tile] != nothing)
            throw NotYet(what_ + ": " + named(t, step) + " overwrites word " +
                         std::to_string(move.tile) + " of the tile");
          tile[move.tile] = size_t(move.memory);
        }
        cost_.load = std::max(cost_.load, your_turn::sectors(memory));
        cost_.write = std::max(cost_.write, your_turn::wavefronts(shared));
      }
    for (unsigned step = 0; step < steps; ++step)  // behind the barrier
      for (unsigned ty = 0; ty < rows_at_once; ++ty) {
        WarpWords memory, shared;
        for (unsigned tx = 0; tx < side; ++tx) {
          const Thread t{bx, by, tx, ty};
          const Move move = yours_.store(t, step, m_.nx, m_.ny);
          require_inside(move, t, step, "stores", "output");
          note(move, tx, memory, shared);
          if (move.memory < 0) continue;
          out_[size_t(move.memory)] = tile[move.tile];
        }
        cost_.store = std::max(cost_.store, your_turn::sectors(memory));
        cost_.read = std::max(cost_.read, your_turn::wavefronts(shared));
      }
  }

  void require_inside(const Move& move, const Thread& t, unsigned step, const char* does,
                      const char* array) const {
    if (move.memory < 0) return;
    const std::string who = what_ + ": " + named(t, step) + " is out of bounds, it ";
    if (size_t(move.memory) >= m_.words())
      throw NotYet(who + does + " word " + std::to_string(move.memory) + " of the " + array +
                   "'s " + std::to_string(m_.words()));
    if (move.tile >= yours_.tile_words)
      throw NotYet(who + "takes word " + std::to_string(move.tile) + " of the tile's " +
                   std::to_string(yours_.tile_words));
  }

  static void note(const Move& move, unsigned lane, WarpWords& memory, WarpWords& shared) {
    memory[lane] = move.memory < 0 ? your_turn::idle : move.memory;
    shared[lane] = move.memory < 0 ? your_turn::idle : move.tile;
  }

  const Tile& yours_;
  Shape m_;
  std::string what_;
  std::vector<size_t> out_;  // which word of the input stands there
  Cost cost_;
};

void require_cheap(int taken, int least, const std::string& unit, const std::string& to) {
  if (taken > least)
    throw your_turn::Dear(std::to_string(taken) + " " + unit + " a request to " + to + "; " +
                          std::to_string(least) + " will do");
}

}  // namespace

void check_tile(const Tile& yours, const Tile&) {
  if (yours.tile_words > most_tile_words)
    throw NotYet("the tile has " + std::to_string(yours.tile_words) + " words; at most " +
                 std::to_string(most_tile_words) + " are allowed");
  for (const Shape m :
       std::initializer_list<Shape>{{1, 1}, {32, 32}, {33, 31}, {7, 1000}, {1009, 97}, {256, 64}}) {
    Launch launch(yours, m);
    launch.run();
    launch.require_right();
  }
  Launch whole(yours, {256, 64});  // whose rows all begin on a sector
  whole.run();
  const Cost cost = whole.cost();
  require_cheap(cost.load, 4, "sectors", "read the input");
  require_cheap(cost.store, 4, "sectors", "write the output");
  require_cheap(cost.write, 1, "wavefronts", "write the tile");
  require_cheap(cost.read, 1, "wavefronts", "read the tile");
}
