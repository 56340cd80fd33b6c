// linked_list: structures made of pointers. Without unified memory each node must be copied and each pointer in it be
// replaced by the copy's address: a deep copy, there and back. In managed memory the device follows the host's own
// pointers. A list, walked by one thread, and a tree, searched by many; both are built by the host, changed by the
// device and read by the host again. Look at what the deep copy costs, done node by node and done at its best.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "../common/first_edition.hpp"
#include "managed_memory.hpp"

namespace {

struct Node {
  unsigned key, value;
  Node *left, *right;  ///< a list is linked by `right` alone
};

// One thread follows the list from node to node, each load waiting for the one before, and changes every value.
__global__ void walk_list(Node* head) {
  for (Node* node = head; node; node = node->right) node->value += node->key;
}

// Each thread goes down the tree for a key of its own, so that a warp's loads scatter more with every level, and
// changes the value that it finds.
__global__ void search_tree(Node* root, unsigned keys) {
  const unsigned key = blockIdx.x * blockDim.x + threadIdx.x;
  if (key >= keys) return;
  Node* node = root;
  while (node && node->key != key) node = key < node->key ? node->left : node->right;
  if (node) node->value += key;
}

constexpr int threads = 128;

enum class Shape { list, tree };
const char* name_of(Shape shape) { return shape == Shape::list ? "list" : "tree"; }

/// Changes every value of the structure at `root` on the device, and waits.
void change_on_device(Shape shape, Node* root, unsigned n) {
  if (shape == Shape::list)
    walk_list<<<1, 1>>>(root);
  else
    search_tree<<<(n + threads - 1) / threads, threads>>>(root, n);
  CUDA_CHECK_LAUNCH();
  wait_for_device();
}

unsigned first_value(unsigned key) { return key * 2654435761u + 1; }

/// Links the nodes whose keys are `first` to `last` - 1 into a balanced tree; `place[key]` says where each lies.
Node* link_tree(Node* nodes, const std::vector<unsigned>& place, unsigned first, unsigned last) {
  if (first >= last) return nullptr;
  const unsigned middle = first + (last - first) / 2;
  Node& node = nodes[place[middle]];
  node = {middle, first_value(middle), link_tree(nodes, place, first, middle),
          link_tree(nodes, place, middle + 1, last)};
  return &node;
}

/// Builds a structure with the keys 0 to n - 1 in `nodes`, in shuffled places as in memory that lived for a while.
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
    open.push_back(node->left), open.push_back(node->right);
  }
  return order;
}

/// The host follows the pointers and finds every key once, its value changed `times` times.
bool changed_right(Node* root, unsigned n, unsigned times) {
  std::vector<bool> seen(n);
  unsigned found = 0;
  for (const Node* node : from_root(root)) {
    if (node->key >= n || seen[node->key] || node->value != first_value(node->key) + times * node->key) return false;
    seen[node->key] = true, ++found;
  }
  return found == n;
}

/// A deep copy node by node: an allocation and a copy each, from the leaves up, since a node needs its children's new
/// addresses. The values come back likewise.
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
    CUDA_CHECK(cudaMemcpy(&order[i]->value, &copies[i].data()->value, sizeof(unsigned), cudaMemcpyDeviceToHost));
}

/// A deep copy in one piece: the nodes lie in one array, so each pointer is moved by the distance of the two arrays.
void copy_at_once(Shape shape, Node* root, std::vector<Node>& nodes, DeviceBuffer<Node>& copy) {
  const auto moved = [](Node* pointer, Node* from, Node* to) { return pointer ? to + (pointer - from) : nullptr; };
  std::vector<Node> staged = nodes;
  for (Node& node : staged) {
    node.left = moved(node.left, nodes.data(), copy.data());
    node.right = moved(node.right, nodes.data(), copy.data());
  }
  copy.copy_from(staged);
  change_on_device(shape, moved(root, nodes.data(), copy.data()), unsigned(nodes.size()));
  CUDA_CHECK(cudaMemcpy(staged.data(), copy.data(), copy.bytes(), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].value = staged[i].value;
}

/// A way to let the device change a structure that the host has just built; each use changes it once more.
struct Way {
  const char* name;
  Node* root;
  std::function<void()> before;  ///< puts the structure on the host; not timed
  std::function<void()> use;     ///< from there to the changed values on the host
};

/// Calls `visit(way)` for every way that this device has.
template <class Visit>
void each_way(Shape shape, unsigned n, Visit&& visit) {
  {
    std::vector<Node> nodes(n);
    DeviceBuffer<Node> copy(n);
    Node* root = nullptr;
    const auto visit_new = [&](const char* name, std::function<void()> use) {
      root = build(shape, nodes.data(), n);
      visit(Way{name, root, [] {}, use});
    };
    visit_new("deep copy, node by node", [&] { copy_each(shape, root, n); });
    visit_new("deep copy, one array", [&] { copy_at_once(shape, root, nodes, copy); });
    if (reads_pageable_memory()) visit_new("no copy, memory of the host", [&] { change_on_device(shape, root, n); });
  }
  if (!has_managed_memory()) return;
  const Managed<Node> nodes(n);
  const auto to_host = [&] {
    if (pages_on_demand()) nodes.prefetch(cudaCpuDeviceId);
    wait_for_device();
  };
  for (const bool prefetched : {false, true}) {
    if (prefetched && !pages_on_demand()) continue;
    Node* const root = build(shape, nodes.data(), n);
    visit(Way{prefetched ? "no copy, managed, prefetched" : "no copy, managed memory", root, to_host, [&] {
                if (prefetched) nodes.prefetch(this_device());
                change_on_device(shape, root, n);
                if (prefetched) to_host();
                for (size_t i = 0; i < n; i += 4096 / sizeof(Node))  // the host reads of every page
                  *const_cast<volatile unsigned*>(&nodes[i].value);
              }});
  }
}

}  // namespace

void linked_list(const Run& run) {
  const unsigned n = run.quick ? 1 << 9 : run.full ? 1 << 16 : 1 << 12;
  run.report.begin("linked_list", "a list and a tree of " + std::to_string(n) + " nodes, " +
                                      bytes_text(double(n) * sizeof(Node)) +
                                      ", built by the host, changed by the device, read by the host");
  if (!run.device) return run.report.left_out("all ways");
  Table table(run.report, "structure, way",
              {measured("median ms", "time", "ms", 3), shown("spread"), measured("us a node", "time a node", "us", 3),
               shown("of one array's")});
  for (const Shape shape : {Shape::list, Shape::tree}) {
    Progress progress("linked_list, " + std::string(name_of(shape)), 4 + reads_pageable_memory());
    std::vector<std::pair<std::string, Statistics>> rows;
    each_way(shape, 1, [](const Way& way) { way.use(); });  // loads the kernel
    each_way(shape, n, [&](const Way& way) {
      progress.step();
      const double once = host_ms(way.use);
      require_right(changed_right(way.root, n, 1), std::string(way.name) + " of the " + name_of(shape));
      std::vector<double> ms{once};
      if (run.measuring.typed || once < 50) {  // node by node takes longer, and once is enough to see that
        ms.resize(run.measuring.repeats_for(once));
        for (double& each : ms) way.before(), each = host_ms(way.use);
        require_right(changed_right(way.root, n, 1 + unsigned(ms.size())), std::string(way.name) + ", repeated");
      }
      rows.push_back({way.name, summarize(ms)});
    });
    const double one_array = rows[1].second.median;
    for (const auto& [way, ms] : rows)
      table.row({name_of(shape), "way", way},
                {ms, ms.repeats > 1 ? spread_text(ms) : "once", scaled(ms, 1e3 / n), times(ms.median / one_array)});
  }
  table.print();
  if (!has_managed_memory()) run.report.left_out("managed memory", managed_memory_text());
  if (!reads_pageable_memory()) run.report.left_out("following pointers into memory of malloc", managed_memory_text());
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("linked_list: the host builds what it means to") {
  for (const Shape shape : {Shape::list, Shape::tree})
    for (unsigned n : {1, 2, 3, 31, 100, 1009}) {
      CAPTURE(name_of(shape));
      CAPTURE(n);
      std::vector<Node> nodes(n);
      Node* const root = build(shape, nodes.data(), n);
      CHECK(changed_right(root, n, 0));
      CHECK(from_root(root).size() == n);
      for (const Node& node : nodes) {  // keys to the left are smaller, to the right larger
        if (node.left) CHECK(node.left->key < node.key);
        if (node.right) CHECK(node.right->key > node.key);
      }
      if (n > 1) CHECK_FALSE(changed_right(root, n, 1));
      nodes[n / 2].value ^= 4;
      CHECK_FALSE(changed_right(root, n, 0));
    }
}

TEST_CASE("linked_list: every way changes every node") {
  if (skip_without_gpu()) return;
  for (const Shape shape : {Shape::list, Shape::tree})
    for (unsigned n : {1, 2, 31, 129, 1009}) {
      CAPTURE(name_of(shape));
      CAPTURE(n);
      each_way(shape, n, [&](const Way& way) {
        CAPTURE(way.name);
        way.use();
        CHECK(changed_right(way.root, n, 1));
        way.before();
        way.use();
        CHECK(changed_right(way.root, n, 2));
      });
    }
}
