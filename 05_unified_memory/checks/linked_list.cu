// Self-checks of linked_list.cu, compiled in its place where BUILD_TESTING is on.
#include "../linked_list.cu"

#include <doctest/doctest.h>

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

TEST_CASE("linked_list: predictions, by hand") {
  Costs c;
  c.change[0] = 0.5;
  c.change[1] = 0.02;
  c.there_and_back = 0.05;
  c.prefetches = 0.11;
  c.a_node = 0.016;
  c.faults = 0.2;
  CHECK(predicted_ms(c, Shape::list, one_array, 1000) == doctest::Approx(0.55));
  CHECK(predicted_ms(c, Shape::tree, node_by_node, 1000) == doctest::Approx(16.02));
  CHECK(predicted_ms(c, Shape::tree, managed_way, 1000) == doctest::Approx(0.22));
  CHECK(predicted_ms(c, Shape::tree, prefetched_way, 1000) == doctest::Approx(0.13));
  CHECK(std::isnan(predicted_ms(c, Shape::tree, pageable_way, 1000)));
}

TEST_CASE("linked_list: every way changes every node") {
  if (skip_without_gpu()) return;
  for (const Shape shape : {Shape::list, Shape::tree})
    for (const unsigned n : {1u, 2u, 31u, 129u, 1009u}) {
      Memory memory(shape, n);
      for (int way = 0; way < way_count; ++way) {
        if (!memory.has(way)) continue;
        CAPTURE(n);
        const Prepared work = memory.prepared(way);
        CAPTURE(work.name);
        CHECK_NOTHROW(require_right(work));
        work.prepare();
        work.work();
        CHECK(work.wrong() == 0);
      }
    }
}

TEST_CASE("linked_list: prefetched nodes do not fault on the device") {
  if (skip_without_gpu()) return;
  if (!migrations_uncounted_because().empty())
    return skip_self_check(migrations_uncounted_because());
  Memory memory(Shape::list, 1 << 12);
  memory.build_again();
  Recording recording;
  for (const int way : {managed_way, prefetched_way}) {
    memory.shared_to_host();
    recording.count([&] { memory.use(way); });
  }
  const std::vector<Migrations> made = recording.end();
  CHECK(made[0].fault_records > 0);
  CHECK(made[1].fault_records == 0);
  CHECK(made[1].cpu_faults == 0);
}
