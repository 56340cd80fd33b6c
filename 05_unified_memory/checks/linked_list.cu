// Self-checks of linked_list.cu, compiled in its place where BUILD_TESTING is on.
#include "../linked_list.cu"

#include "../../framework/common/checks/standard.hpp"
#include "../migrations.hpp"

TEST_CASE("linked_list: the host builds what it means to") {
  for (const Shape shape : {Shape::list, Shape::tree})
    for (const unsigned n : {1u, 2u, 3u, 31u, 100u, 1009u}) {
      CAPTURE(std::string(name_of(shape)));
      CAPTURE(n);
      std::vector<Node> nodes(n);
      Node* const root = build(shape, nodes.data(), n);
      CHECK(wrong_nodes(root, n, 0) == 0);
      CHECK(from_root(root).size() == n);
      for (const Node& node : nodes) {  // keys to the left are smaller, to the right larger
        if (node.left) CHECK(node.left->key < node.key);
        if (node.right) CHECK(node.right->key > node.key);
      }
      CHECK(wrong_nodes(root, n, 1) == n - 1);  // the key 0 adds nothing
      nodes[n / 2].value ^= 4;
      CHECK(wrong_nodes(root, n, 0) == 1);
    }
}

TEST_CASE("linked_list: prefetched nodes do not fault on the device") {
  if (skip_without_gpu()) return;
  if (!migrations_uncounted_because().empty())
    return skip_self_check(migrations_uncounted_because());
  Memory memory(Shape::list, 1 << 12, true);
  MigrationRecording recording;
  for (const char* key : {"no_copy", "no_copy_prefetched"}) {
    memory.shared_to_host();
    recording.count([&] { with_key(ways, Ref(key))->use(memory); });
  }
  const std::vector<Migrations> made = recording.end();
  CHECK(made[0].fault_records > 0);
  CHECK(made[1].fault_records == 0);
  CHECK(made[1].cpu_faults == 0);
}

EXPERIMENT_CHECKS_OF_FACTS(linked_list)
