// linked_list: what does a structure made of pointers cost on the device? It needs a deep copy, says
// the lecture: a node's copy has another address, so every pointer to it is replaced. Unified
// memory changes that: the device follows the host's own pointers [PR, implications].
//
// The host builds a list, one thread of the device walks along it and changes each node, and the
// host reads it again. Look at the deep copy as one writes it first, a node at a time; at the same
// in one piece; and at none.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o linked_list linked_list.cu ../common/*.cpp
//
//   1  walk_list  one thread, one node after another
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "../common/sample.hpp"
#include "managed_memory.hpp"

namespace {

struct Node {
  unsigned key, value;
  Node* next;
  char name[48];  // what a node carries besides: with it, two sectors
};

// Each node says where the next one is: so no two loads overlap.
__global__ void walk_list(Node* head) {
  for (Node* node = head; node; node = node->next) node->value += node->key;
}

void walk_on_device(Node* head) {
  walk_list<<<1, 1>>>(head);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());
}

// ---- the list ----

unsigned first_value(unsigned key) { return key * 2654435761u + 1; }

/// Links n nodes, with the keys 1 to n. They lie in shuffled places, as in memory that lived for a
/// while. Returns the head.
Node* build(Node* nodes, size_t n) {
  std::vector<size_t> places(n);
  std::iota(places.begin(), places.end(), size_t(0));
  std::shuffle(places.begin(), places.end(), std::mt19937(7));
  Node* head = nullptr;
  for (unsigned key = unsigned(n); key > 0; --key) {
    Node* node = nodes + places[key - 1];
    *node = {key, first_value(key), head, "a name"};
    head = node;
  }
  return head;
}

/// The host follows the pointers: what is wrong if every node was changed so many times?
std::string find_error(const Node* nodes, const Node* head, size_t n, unsigned times) {
  const Node* node = head;
  for (unsigned key = 1; key <= n; ++key, node = node->next) {
    if (node < nodes || node >= nodes + n) return "no pointer leads to node " + std::to_string(key);
    if (node->key != key || node->value != first_value(key) + times * key)
      return "node " + std::to_string(key) + " is wrong";
  }
  return node ? "the list does not end" : "";
}

// ---- with a deep copy ----

/// An allocation and a copy for each node, from the tail on, since a node needs the new address of
/// the next. The values come back likewise.
void copy_each_node(Node* head) {
  std::vector<Node*> nodes;
  for (Node* node = head; node; node = node->next) nodes.push_back(node);
  std::vector<Node*> copies(nodes.size() + 1);  // and a null behind the tail
  for (size_t i = nodes.size(); i-- > 0;) {
    Node node = *nodes[i];
    node.next = copies[i + 1];
    CUDA_CHECK(cudaMalloc(&copies[i], sizeof node));
    CUDA_CHECK(cudaMemcpy(copies[i], &node, sizeof node, cudaMemcpyHostToDevice));
  }
  walk_on_device(copies[0]);
  for (size_t i = 0; i < nodes.size(); ++i) {
    CUDA_CHECK(cudaMemcpy(&nodes[i]->value, &copies[i]->value, sizeof nodes[i]->value,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(copies[i]));
  }
}

/// The nodes as they have to be in another array: a pointer leads to the same place in it.
std::vector<Node> moved(const std::vector<Node>& nodes, Node* to) {
  std::vector<Node> copy = nodes;
  for (Node& node : copy)
    if (node.next) node.next = to + (node.next - nodes.data());
  return copy;
}

/// All nodes lie in one array: one allocation, one copy there, one back.
void copy_at_once(std::vector<Node>& nodes, const Node* head) {
  Node* copy = nullptr;
  const size_t bytes = nodes.size() * sizeof(Node);
  CUDA_CHECK(cudaMalloc(&copy, bytes));
  std::vector<Node> staged = moved(nodes, copy);
  CUDA_CHECK(cudaMemcpy(copy, staged.data(), bytes, cudaMemcpyHostToDevice));
  walk_on_device(copy + (head - nodes.data()));
  CUDA_CHECK(cudaMemcpy(staged.data(), copy, bytes, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(copy));
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].value = staged[i].value;
}

/// Whether the device can follow a pointer as it stands, which a copy without its targets needs.
bool can_follow(const Node* pointer) {
  cudaPointerAttributes of{};
  CUDA_CHECK(cudaPointerGetAttributes(&of, pointer));
  int everywhere = 0;  // with HMM or ATS
  CUDA_CHECK(
      cudaDeviceGetAttribute(&everywhere, cudaDevAttrPageableMemoryAccess, current_device()));
  return of.type != cudaMemoryTypeUnregistered || everywhere;
}

// ---- without ----

/// The device follows the host's pointers, and the pages come: on demand, or before.
void no_copy(const ManagedBuffer<Node>& nodes, Node* head, bool prefetched) {
  if (prefetched) CUDA_CHECK(cudaMemPrefetchAsync(nodes, nodes.bytes(), gpu_memory(), 0, nullptr));
  walk_list<<<1, 1>>>(head);
  CUDA_CHECK_LAUNCH();
  if (prefetched) CUDA_CHECK(cudaMemPrefetchAsync(nodes, nodes.bytes(), host_memory, 0, nullptr));
  CUDA_CHECK(cudaDeviceSynchronize());
  read_every_page(nodes, nodes.bytes());
}

// ---- the ways, each from a list that the host built to one that it reads ----

constexpr const char *the_walk = "the walk alone", *node_by_node = "deep copy, node by node",
                     *in_one_piece = "deep copy, in one piece",
                     *on_demand = "no copy, managed memory",
                     *prefetched = "no copy, managed, prefetched";

/// The host builds the list anew before each run: so its pages lie on the host.
Benchmark changing(const char* name, Node* nodes, size_t n,
                   const std::function<void(Node* head)>& change) {
  Node* const head = build(nodes, n);  // each time in the same places
  return {.name = name,
          .work = [=] { change(head); },
          .check = {{}, [=] { return find_error(nodes, head, n, 1); }},
          .on_host = true,
          .before = [=] { build(nodes, n); }};
}

/// `managed` is empty where pages do not move when they are touched.
std::vector<Benchmark> ways(size_t n, const ManagedBuffer<Node>& managed) {
  const auto nodes = std::make_shared<std::vector<Node>>(n);
  const auto each = [nodes](Node* head) { copy_each_node(head); };
  const auto at_once = [nodes](Node* head) { copy_at_once(*nodes, head); };
  std::vector<Benchmark> all = {changing(node_by_node, nodes->data(), n, each),
                                changing(in_one_piece, nodes->data(), n, at_once)};
  if (managed.size() == 0) return all;
  const auto demand = [managed](Node* head) { no_copy(managed, head, false); };
  const auto before = [managed](Node* head) { no_copy(managed, head, true); };
  all.push_back(changing(on_demand, managed, n, demand));
  all.push_back(changing(prefetched, managed, n, before));
  return all;
}

}  // namespace

void linked_list(Run& run) {
  const size_t n = run.quick ? 256 : 1024;
  run.title("a list of " + std::to_string(n) + " nodes, " + bytes_text(double(n * sizeof(Node))) +
            ", that the device changes and the host reads");
  const std::string why = nothing_moves_because(run.gpu);
  const auto all_ways = [&] {
    std::vector<Benchmark> all =
        ways(n, why.empty() ? ManagedBuffer<Node>(n) : ManagedBuffer<Node>());
    // The walk alone: the nodes are on the device already, and stay there.
    std::vector<Node> nodes(n);
    const Node* head = build(nodes.data(), n);
    const DeviceBuffer<Node> copy(n);
    const std::vector<Node> staged = moved(nodes, copy);
    CUDA_CHECK(cudaMemcpy(copy, staged.data(), copy.bytes(), cudaMemcpyHostToDevice));
    Node* const copied_head = copy + (head - nodes.data());
    all.push_back({.name = the_walk,
                   .work = [copy, copied_head] { walk_on_device(copied_head); },
                   .on_host = true});
    return all;
  };
  const Timings timed = run.timer.with_fresh_memory(all_ways, 2);

  Table table("way", {"ms", "spread", "us per node", "times the walk"});
  for (const char* name : {the_walk, node_by_node, in_one_piece, on_demand, prefetched}) {
    if (!why.empty() && (name == on_demand || name == prefetched)) {
      table.missing(name, why);
      continue;
    }
    const Times& times = timed[name];
    table.row(name, {times.ms_interval(), percent(times.spread()), 1e3 * times.median() / double(n),
                     ratio(times, timed[the_walk])});
  }
  run.print(table);
  run.note("node by node, an allocation and two small copies for each take nearly all of the time");
  run.note("nodes that lie in one array are copied at once: compare managed memory with that, too");

  std::vector<Node> nodes(2);
  const Node* const head = build(nodes.data(), nodes.size());
  const bool followed = can_follow(head->next);
  run.observed({"05.10", "with separate memories, structures of pointers need a deep copy",
                "[PR 2] \"Deep copies required for complex data structures\""},
               !followed,
               "a node's pointer leads to host memory, which this device can" +
                   std::string(followed ? "" : "not") + " read");
}
SAMPLE(8, linked_list, "a structure of pointers, with and without a deep copy");

TEST_CASE("linked_list: the host builds what it means to, and a change is noticed") {
  for (const size_t n : {1, 2, 3, 31, 1009}) {
    CAPTURE(n);
    std::vector<Node> nodes(n);
    Node* const head = build(nodes.data(), n);
    CHECK(find_error(nodes.data(), head, n, 0) == "");
    CHECK(find_error(nodes.data(), head, n, 1) != "");  // nobody has changed it yet
    nodes[n / 2].value ^= 4;
    CHECK(find_error(nodes.data(), head, n, 0) != "");
  }
}

TEST_CASE("linked_list: a copy's pointers lead to the copy") {
  std::vector<Node> nodes(100), target(100);
  Node* const head = build(nodes.data(), nodes.size());
  std::ranges::copy(moved(nodes, target.data()), target.begin());
  const Node* const copied_head = target.data() + (head - nodes.data());
  CHECK(find_error(target.data(), copied_head, target.size(), 0) == "");
}

TEST_CASE("linked_list: the device can follow pointers to what it can read") {
  if (skip_without_gpu()) return;
  CHECK(can_follow(DeviceBuffer<Node>(1)));
  if (current_gpu().managedMemory) CHECK(can_follow(ManagedBuffer<Node>(1)));
  const std::vector<Node> nodes(1);
  CHECK(can_follow(nodes.data()) == bool(current_gpu().pageableMemoryAccess));
}

TEST_CASE("linked_list: every way changes each node once") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2, 31, 1009}) {
    CAPTURE(n);
    const bool pages_move = nothing_moves_because(current_gpu()).empty();
    const auto managed = pages_move ? ManagedBuffer<Node>(n) : ManagedBuffer<Node>();
    for (const Benchmark& way : ways(n, managed)) {
      CAPTURE(way.name);
      way.before();
      CHECK(way.check.find_error() != "");
      way.work();
      CHECK(way.check.find_error() == "");
    }
  }
}
