// linked_list: structures made of pointers need deep copies, says the lecture, and unified memory
// changes that [PR]. A list, walked by one thread, and a tree, searched by many, are built by the
// host, changed by the device and read by the host again. Look at what the deep copy costs, done
// node by node and done at its best, and what following the host's own pointers costs.
//   cmake -S 05_unified_memory -B build/linked_list -DEXPERIMENTS=linked_list
//   cmake --build build/linked_list && build/linked_list/05_unified_memory
//
//   1  walk_list     one thread, one node after another
//   2  search_tree   a key a thread, from the root down
#include <algorithm>
#include <numeric>
#include <random>

#include "migrations.hpp"

namespace {

struct Node {
  unsigned key, value;
  Node *left, *right;  ///< a list is linked by `right` alone
};

// ---- kernels ----

// [walk_list]
// One thread. Each node says where the next one is, so that no two loads overlap.
__global__ void walk_list(Node* head) {
  for (Node* node = head; node; node = node->right) node->value += node->key;
}
// [/walk_list]

// Each thread goes down the tree for a key of its own: a warp's loads scatter more with each level.
__global__ void search_tree(Node* root, unsigned keys) {
  const unsigned key = blockIdx.x * blockDim.x + threadIdx.x;
  if (key >= keys) return;
  Node* node = root;
  while (node && node->key != key) node = key < node->key ? node->left : node->right;
  if (node) node->value += key;
}

// ---- the structures, and what is right ----

enum class Shape { list, tree };
const char* name_of(Shape shape) { return shape == Shape::list ? "list" : "tree"; }

void launch(Shape shape, Node* root, unsigned n) {
  constexpr int threads = 128;
  if (shape == Shape::list)
    walk_list<<<1, 1>>>(root);
  else
    search_tree<<<(n + threads - 1) / threads, threads>>>(root, n);
  CUDA_CHECK_LAUNCH();
}

/// Changes every value of the structure at `root` on the device, and waits.
void change_on_device(Shape shape, Node* root, unsigned n) {
  launch(shape, root, n);
  wait_for_device();
}

unsigned first_value(unsigned key) { return key * 2654435761u + 1; }

/// Links the nodes whose keys are `first` to `last` - 1 into a balanced tree; `place[key]` says
/// where each lies.
Node* link_tree(Node* nodes, const std::vector<unsigned>& place, unsigned first, unsigned last) {
  if (first >= last) return nullptr;
  const unsigned middle = first + (last - first) / 2;
  Node& node = nodes[place[middle]];
  node = {middle, first_value(middle), link_tree(nodes, place, first, middle),
          link_tree(nodes, place, middle + 1, last)};
  return &node;
}

/// Builds a structure with the keys 0 to n - 1 in `nodes`, in shuffled places as in memory that
/// lived for a while.
Node* build(Shape shape, Node* nodes, unsigned n) {
  std::vector<unsigned> place(n);
  std::iota(place.begin(), place.end(), 0u);
  std::shuffle(place.begin(), place.end(), std::mt19937(7));
  if (shape == Shape::tree) return link_tree(nodes, place, 0, n);
  Node* head = nullptr;
  for (unsigned key = n; key-- > 0;) {
    nodes[place[key]] = {key, first_value(key), nullptr, head};
    head = &nodes[place[key]];
  }
  return head;
}

/// The nodes from the root down: each comes before those it points to.
std::vector<Node*> from_root(Node* root) {
  std::vector<Node*> order, open{root};
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    if (!node) continue;
    order.push_back(node);
    open.push_back(node->left);
    open.push_back(node->right);
  }
  return order;
}

/// The host follows the pointers and looks for every key once, its value changed `times` times:
/// the number of keys for which that is not so.
size_t wrong_nodes(Node* root, unsigned n, unsigned times) {
  std::vector<bool> right(n, false);
  for (const Node* node : from_root(root))
    if (node->key < n)
      right[node->key] =
          !right[node->key] && node->value == first_value(node->key) + times * node->key;
  return size_t(std::count(right.begin(), right.end(), false));
}

// ---- the ways ----

// [copy_each]
/// A deep copy node by node: an allocation and a copy each, from the leaves up, since a node needs
/// its children's new addresses. The values come back likewise.
void copy_each(Shape shape, Node* root, unsigned n) {
  const std::vector<Node*> order = from_root(root);
  std::vector<DeviceBuffer<Node>> copies(n);
  std::vector<Node*> copy_of(n);  // by key
  for (size_t i = order.size(); i-- > 0;) {
    Node node = *order[i];
    if (node.left) node.left = copy_of[node.left->key];
    if (node.right) node.right = copy_of[node.right->key];
    copies[i] = DeviceBuffer<Node>(1);
    CUDA_CHECK(cudaMemcpy(copies[i].data(), &node, sizeof node, cudaMemcpyHostToDevice));
    copy_of[node.key] = copies[i].data();
  }
  change_on_device(shape, copy_of[root->key], n);
  for (size_t i = 0; i < order.size(); ++i)
    CUDA_CHECK(cudaMemcpy(&order[i]->value, &copies[i].data()->value, sizeof(unsigned),
                          cudaMemcpyDeviceToHost));
}
// [/copy_each]

Node* moved(Node* pointer, Node* from, Node* to) {
  return pointer ? to + (pointer - from) : nullptr;
}

/// A deep copy in one piece: the nodes lie in one array, so each pointer is moved by the distance
/// of the two arrays.
void copy_at_once(Shape shape, Node* root, std::vector<Node>& nodes, DeviceBuffer<Node>& copy) {
  std::vector<Node> staged = nodes;
  for (Node& node : staged) {
    node.left = moved(node.left, nodes.data(), copy.data());
    node.right = moved(node.right, nodes.data(), copy.data());
  }
  copy.copy_from(staged);
  change_on_device(shape, moved(root, nodes.data(), copy.data()), unsigned(nodes.size()));
  device_memory::to_host(staged.data(), copy.data(), copy.bytes());
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].value = staged[i].value;
}

/// No copy: the device follows the host's pointers.
void no_copy(Shape shape, Node* root, const Managed<Node>& nodes) {
  change_on_device(shape, root, unsigned(nodes.size()));
  read_every_page(nodes.data(), nodes.size());
}

void no_copy_prefetched(Shape shape, Node* root, const Managed<Node>& nodes) {
  nodes.prefetch(this_device());
  launch(shape, root, unsigned(nodes.size()));
  nodes.prefetch(cudaCpuDeviceId);
  wait_for_device();
  read_every_page(nodes.data(), nodes.size());
}

enum { node_by_node, one_array, managed_way, prefetched_way, pageable_way, way_count };
const char* const way_names[way_count] = {"deep copy, node by node", "deep copy, one array",
                                          "no copy, managed memory", "no copy, managed, prefetched",
                                          "no copy, memory of the host"};

/// A structure in memory of the host, and one in managed memory.
struct Memory {
  Shape shape;
  unsigned n;
  std::vector<Node> nodes;
  DeviceBuffer<Node> copy;
  Managed<Node> shared;
  Node *root = nullptr, *shared_root = nullptr;
  unsigned changed = 0, shared_changed = 0;  ///< how often since it was built

  Memory(Shape shape, unsigned n)
      : shape(shape), n(n), nodes(n), copy(n), shared(has_managed_memory() ? n : 0) {}

  void build_again() {
    root = build(shape, nodes.data(), n);
    if (shared.size()) shared_root = build(shape, shared.data(), n);
    changed = shared_changed = 0;
  }
  void shared_to_host() const {
    if (pages_on_demand()) shared.prefetch(cudaCpuDeviceId);
    wait_for_device();
  }
  bool has(int way) const {
    if (way == pageable_way) return reads_pageable_memory();
    if (way == managed_way) return has_managed_memory();
    return way != prefetched_way || (has_managed_memory() && pages_on_demand());
  }
  void use(int way) {
    if (way == node_by_node) copy_each(shape, root, n);
    if (way == one_array) copy_at_once(shape, root, nodes, copy);
    if (way == managed_way) no_copy(shape, shared_root, shared);
    if (way == prefetched_way) no_copy_prefetched(shape, shared_root, shared);
    if (way == pageable_way) change_on_device(shape, root, n);
    ++(is_shared(way) ? shared_changed : changed);
  }
  size_t wrong(int way) const {
    return is_shared(way) ? wrong_nodes(shared_root, n, shared_changed)
                          : wrong_nodes(root, n, changed);
  }
  Prepared prepared(int way) {
    return {std::string(way_names[way]) + " of the " + name_of(shape),
            [this] {
              if (shared.size()) shared_to_host();
              build_again();
            },
            [this, way] {
              if (is_shared(way)) shared_to_host();
            },
            [this, way] { use(way); }, [this, way] { return wrong(way); }};
  }
  static bool is_shared(int way) { return way == managed_way || way == prefetched_way; }
};

// ---- what to expect ----

/// Milliseconds that rows of this run give; `faults`, `a_node`: of the list, for the tree.
struct Costs {
  double change[2] = {NAN, NAN};  ///< by shape: launched and waited for, nodes on the device
  double there_and_back = NAN;    ///< two copies of as many bytes between the host and the device
  double prefetches = NAN;        ///< two prefetches of them, where nobody uses them there
  double a_node = NAN;            ///< an allocation and two small copies
  double faults = NAN;            ///< what pages on demand add
};

double predicted_ms(const Costs& c, Shape shape, int way, unsigned n) {
  const double change = c.change[int(shape)];
  if (way == node_by_node) return change + n * c.a_node;
  if (way == managed_way) return change + c.faults;
  if (way == pageable_way) return NAN;  // how the system reaches it is its own affair
  return change + (way == prefetched_way ? c.prefetches : c.there_and_back);
}

// ---- the experiment ----

/// What each shape's rows begin with; `prefetches` is empty where pages do not move on demand.
struct Alone {
  Statistics change, copies;
  Readings prefetches;
};

/// What the change alone takes where the nodes are on the device already, and moving them alone.
Alone calibrate(const Run& run, Memory& memory, Costs& costs) {
  memory.build_again();
  std::vector<Node> staged = memory.nodes;
  for (Node& node : staged) {
    node.left = moved(node.left, memory.nodes.data(), memory.copy.data());
    node.right = moved(node.right, memory.nodes.data(), memory.copy.data());
  }
  memory.copy.copy_from(staged);
  Node* const root = moved(memory.root, memory.nodes.data(), memory.copy.data());
  const Task alone{"the change alone", [&] { change_on_device(memory.shape, root, memory.n); },
                   unchecked("the ways below are checked"), true};
  const Task there_and_back{"copies alone",
                            [&] {
                              memory.copy.copy_from(staged);
                              device_memory::to_host(staged.data(), memory.copy.data(),
                                                     memory.copy.bytes());
                            },
                            unchecked("the ways below are checked"), true};
  Alone took{run.time(alone).statistics(), run.time(there_and_back).statistics(), {}};
  if (memory.has(prefetched_way))
    took.prefetches = run.time({"prefetches alone",
                                [&] {
                                  memory.shared.prefetch(this_device());
                                  memory.shared_to_host();
                                  read_every_page(memory.shared.data(), memory.n);
                                },
                                unchecked("the ways below are checked"), true});
  costs.change[int(memory.shape)] = took.change.median;
  costs.there_and_back = took.copies.median;
  costs.prefetches = took.prefetches.median();
  return took;
}

/// Times of all ways of one shape; empty where the device does not have one.
std::vector<Readings> time_ways(const Run& run, Memory& memory) {
  std::vector<Readings> times(way_count);
  std::vector<Prepared> quick_ones;
  std::vector<int> ways;
  for (int way = 0; way < way_count; ++way) {
    if (!memory.has(way)) continue;
    if (way == node_by_node) {  // takes so long that a few times show it
      Measuring few = run.measuring;
      few.rounds = 6;
      times[way] = prepared_in_turn(few, {memory.prepared(way)})[0];
      continue;
    }
    quick_ones.push_back(memory.prepared(way));
    ways.push_back(way);
  }
  const std::vector<Readings> took = prepared_in_turn(run.measuring, quick_ones);
  for (size_t i = 0; i < ways.size(); ++i) times[ways[i]] = took[i];
  for (int way = 0; way < way_count; ++way)
    if (memory.has(way))
      require_right(memory.wrong(way) == 0, std::string(way_names[way]) + ", repeated");
  return times;
}

void measure(const Run& run, Table& table, Shape shape, unsigned n, Costs& costs) {
  Memory memory(shape, n);
  const Alone alone = calibrate(run, memory, costs);
  const std::vector<Readings> times = time_ways(run, memory);
  if (shape == Shape::list) {
    costs.a_node = (times[node_by_node].median() - alone.change.median) / n;
    costs.faults = times[managed_way].median() - alone.change.median;
  }
  const auto row = [&](const char* way, const Statistics& ms, const Cell& cell) {
    table.row({name_of(shape), "way", way}, {cell, spread_text(ms), scaled(ms, 1e3 / n),
                                             ::times(ms.median / times[one_array].median())});
  };
  row("the change alone", alone.change, Calibration{alone.change});
  row("the copies alone", alone.copies, Calibration{alone.copies});
  if (!alone.prefetches.ms.empty()) {
    const Statistics prefetches = alone.prefetches.statistics();
    row("the prefetches alone", prefetches, Calibration{prefetches});
  }
  for (int way = 0; way < way_count; ++way) {
    if (times[way].ms.empty()) continue;
    const Statistics ms = times[way].statistics();
    const bool calibrates = shape == Shape::list && (way == node_by_node || way == managed_way);
    row(way_names[way], ms,
        calibrates ? Cell(Calibration{ms})
                   : Cell(Compared{predicted_ms(costs, shape, way, n), ms, Model::host}));
  }
}

}  // namespace

void linked_list(const Run& run) {
  const unsigned n = run.quick ? 1 << 9 : run.full ? 1 << 16 : 1 << 12;
  run.report.begin("linked_list", "a list and a tree of " + std::to_string(n) + " nodes, " +
                                      bytes_text(double(n) * sizeof(Node)) +
                                      ", built by the host, changed by the device, read by the "
                                      "host");
  if (!run.device) return run.report.left_out("all ways");
  Table table(run.report, "structure, way",
              {compared("ms", "time", "ms", 3), shown("spread"),
               measured("us a node", "time a node", "us", 3), shown("of one array's")});
  Costs costs;
  for (const Shape shape : {Shape::list, Shape::tree}) measure(run, table, shape, n, costs);
  table.print();
  if (!has_managed_memory()) run.report.left_out("managed memory", managed_memory_text());
  if (!reads_pageable_memory())
    run.report.left_out("following pointers into memory of malloc", managed_memory_text());
}
