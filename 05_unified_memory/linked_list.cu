// linked_list: structures made of pointers need deep copies, says the lecture, and unified memory
// changes that [PR]. A list, walked by one thread, and a tree, searched by many, are built by the
// host, changed by the device and read by the host again. Two things to look at:
//   - What the deep copy costs, done node by node and done at its best.
//   - What following the host's own pointers costs.
//
//   cmake -S 05_unified_memory -B build/linked_list -DEXPERIMENTS=linked_list
//   cmake --build build/linked_list && build/linked_list/05_unified_memory
//
//   1  walk_list     one thread, one node after another
//   2  search_tree   a key per thread, from the root down
#include <algorithm>
#include <numeric>
#include <random>

#include "managed_memory.hpp"

using namespace samples;

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

// ---- the rows ----

/// A structure in memory of the host, and one in managed memory.
struct Memory {
  Shape shape;
  unsigned n;
  std::vector<Node> nodes;
  DeviceBuffer<Node> copy;
  Managed<Node> shared;
  Node *root = nullptr, *shared_root = nullptr;

  Memory(Shape shape, unsigned n, bool managed)
      : shape(shape), n(n), nodes(n), copy(n), shared(managed ? n : 0) {
    if (!device_memory::Pretence::stands()) build_again();
  }
  void build_again() {
    root = build(shape, nodes.data(), n);
    if (shared.size()) shared_root = build(shape, shared.data(), n);
  }
  void shared_to_host() const {
    if (pages_on_demand()) shared.prefetch(cudaCpuDeviceId);
    wait_for_device();
  }
  /// The host's nodes as they have to be on the device.
  std::vector<Node> staged() {
    std::vector<Node> on_device = nodes;
    for (Node& node : on_device) {
      node.left = moved(node.left, nodes.data(), copy.data());
      node.right = moved(node.right, nodes.data(), copy.data());
    }
    return on_device;
  }
};

struct Way {
  const char* key;
  const char* words;
  void (*use)(Memory&);
  bool is_shared = false;   ///< in managed memory
  bool prefetches = false;  ///< where pages move on demand
  bool of_malloc = false;   ///< where kernels read memory of malloc
};
const Way ways[] = {
    {"copy_each", "deep copy, node by node", [](Memory& m) { copy_each(m.shape, m.root, m.n); }},
    {"copy_at_once", "deep copy, one array",
     [](Memory& m) { copy_at_once(m.shape, m.root, m.nodes, m.copy); }},
    {"no_copy", "no copy, managed memory",
     [](Memory& m) { no_copy(m.shape, m.shared_root, m.shared); }, true},
    {"no_copy_prefetched", "no copy, managed, prefetched",
     [](Memory& m) { no_copy_prefetched(m.shape, m.shared_root, m.shared); }, true, true},
    {"of_malloc", "no copy, memory of the host",
     [](Memory& m) { change_on_device(m.shape, m.root, m.n); }, false, false, true},
};

std::string key_of(Shape shape, const char* key) { return std::string(name_of(shape)) + "_" + key; }

/// From the structure on the host to its changed values there.
Task task_of(const Shared<Memory>& m, const Way& way) {
  const auto wrong = [m, &way] {
    return wrong_nodes(way.is_shared ? m->shared_root : m->root, m->n, 1);
  };
  Task task{key_of(m->shape, way.key),
            [m, &way] { way.use(*m); },
            {[m] { m->build_again(); }, wrong, ""},
            true};
  if (way.is_shared) task.enter = [m] { m->shared_to_host(); };
  return task;
}

/// What the change takes where the nodes are on the device already.
Task change_task(const Ref& ref, const Shared<Memory>& m) {
  const auto change = [m] {
    change_on_device(m->shape, moved(m->root, m->nodes.data(), m->copy.data()), m->n);
  };
  Task task{text(ref), change, unchecked("the ways are checked"), true};
  task.enter = [m] { m->copy.copy_from(m->staged()); };
  return task;
}
/// Moving as many bytes alone, there and back.
Task copies_task(const Ref& ref, const Shared<Memory>& m) {
  const Shared words(m->nodes);
  const auto there_and_back = [m, words] {
    m->copy.copy_from(*words);
    device_memory::to_host(words->data(), m->copy.data(), m->copy.bytes());
  };
  return {text(ref), there_and_back, unchecked("the ways are checked"), true};
}

// ---- the experiment ----

unsigned nodes_of(const Run& run) { return run.quick ? 1 << 9 : run.full ? 1 << 14 : 1 << 12; }

void measure(const Run& run, Shape shape, unsigned n, const Abilities& can) {
  const Ref change = key_of(shape, "change"), copies = key_of(shape, "copies"),
            at_once = key_of(shape, "copy_at_once");
  const auto of_at_once = [&](const Row&, const Statistics& ms) {
    return factor_text(ms.median / (*run.results)(at_once).time.ms.median);
  };
  const auto us_per_node = [n](const Row&, double ms) { return 1e3 * ms / n; };
  Sheet sheet(run, name_of(shape),
              {milliseconds(3),
               spread(),
               in_unit(measured("us per node", "time per node", "us", 3), us_per_node),
               {shown("of one array's"), {}, {}, of_at_once}});
  sheet.add({.ref = change, .words = "the change alone"});
  sheet.add({.ref = copies, .words = "the copies alone"});
  for (const Way& way : ways) {
    const bool there = (!way.is_shared || can.managed) && (!way.prefetches || can.on_demand) &&
                       (!way.of_malloc || can.pageable);
    sheet.add({.ref = key_of(shape, way.key),
               .words = way.words,
               .model = Model::host,
               .missing = there ? std::string() : can.why()});
  }
  SharedByTasks memory([&] { return Memory(shape, n, can.managed); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    if (same(row.ref, change)) return change_task(row.ref, memory());
    if (same(row.ref, copies)) return copies_task(row.ref, memory());
    const std::string key = row.ref.key.substr(std::string(name_of(shape)).size() + 1);
    return task_of(memory(), *with_key(ways, Ref(key)));
  });
  sheet.print({"no prediction: a model would need as many constants as it predicts rows"});
}

void run_linked_list(const Run& run) {
  const unsigned n = nodes_of(run);
  run.report.begin("linked_list", "a list and a tree of " + std::to_string(n) + " nodes, " +
                                      bytes_text(double(n) * sizeof(Node)) +
                                      ", built by the host, changed by the device, read by the "
                                      "host");
  const Abilities can = ask_abilities(run);
  for (const Shape shape : {Shape::list, Shape::tree}) measure(run, shape, n, can);
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = 3.0 * nodes_of(run) * sizeof(Node)}; }

/// No more than 1009 nodes: each is allocated by itself.
std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  const unsigned nodes = unsigned(std::min<size_t>(n, 1009));
  for (const Shape shape : {Shape::list, Shape::tree})
    for (const Way& way : ways) {
      if ((way.is_shared && !has_managed_memory()) || (way.prefetches && !pages_on_demand()) ||
          (way.of_malloc && !reads_pageable_memory()))
        continue;
      const Shared memory(Memory(shape, nodes, has_managed_memory()));
      all.push_back({.task = task_of(memory, way),
                     .elements = nodes - 1,  // the key 0 adds nothing
                     .change_one = [memory, &way] {
                       ++(way.is_shared ? memory->shared_root : memory->root)->value;
                     }});
    }
  return all;
}

}  // namespace

extern const Experiment linked_list_experiment{
    .name = "linked_list",
    .about = "a list and a tree used by both sides, with and without a deep copy",
    .run = run_linked_list,
    .needs = needs,
    .tasks = tasks,
};
