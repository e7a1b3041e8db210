// Model files as converters of several years wrote them: another layout of the same model gives the same
// bits.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

using namespace orcd;
using namespace orcd::test;

namespace {

using logits = std::vector<std::vector<float>>;

logits run(const gguf_writer& w) {
  tiny_backend backend(w.build(), {.threads = 1}, 1, {}, {});
  return backend.generate(engine::slot_id{0}, backend.prompt(11, 3), 4, 8);
}

tiny_model_options plain(engine::ggml_type type = engine::ggml_type::q8_0) {
  tiny_model_options o;
  o.matrix_type = type;
  o.biases = true;
  return o;
}

/// Tensors of a layer become one, rows behind rows.
void fuse(gguf_writer& w, const std::vector<std::string>& names, const std::string& name) {
  written_tensor fused = *w.find_tensor(names.front());
  fused.name = name;
  for (std::size_t i = 1; i < names.size(); ++i) {
    const written_tensor& next = *w.find_tensor(names[i]);
    fused.extents.back() += next.extents.back();
    fused.data.insert(fused.data.end(), next.data.begin(), next.data.end());
  }
  for (const std::string& one : names) w.remove_tensor(one);
  w.add_tensor(std::move(fused));
}

void add_strange_keys(gguf_writer& w) {
  w.add("quantize.imatrix.file", "calibration.dat")
      .add("quantize.imatrix.dataset", "words.txt")
      .add("quantize.imatrix.entries_count", std::int32_t{14})
      .add("quantize.imatrix.chunks_count", std::uint32_t{88})
      .add("general.base_model.0.name", "Something")
      .add("general.tags", std::vector<std::string>{"a", "b"})
      .add("general.languages", std::vector<std::string>{})
      .add("mradermacher.quantize_version", "2")
      .add("llama.a_key_of_tomorrow", 1.5)
      .add("tokenizer.ggml.a_key_of_tomorrow", true);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(wild_files)

BOOST_AUTO_TEST_CASE(the_same_model_laid_out_otherwise) {
  struct change {
    const char* name;
    std::function<void(gguf_writer&)> make;
  };
  const std::vector<change> changes{
      {"no rope.dimension_count", [](gguf_writer& w) { w.remove("llama.rope.dimension_count"); }},
      {"rope.dimension_count",
       [](gguf_writer& w) {
         w.remove("llama.rope.dimension_count");
         w.add("llama.rope.dimension_count", std::uint32_t{16});
       }},
      {"no head widths",
       [](gguf_writer& w) {
         w.remove("llama.attention.key_length");
         w.remove("llama.attention.value_length");
       }},
      {"no vocab_size", [](gguf_writer& w) { w.remove("llama.vocab_size"); }},
      {"no token types", [](gguf_writer& w) { w.remove("tokenizer.ggml.token_type"); }},
      {"heads of KV in an array",
       [](gguf_writer& w) {
         w.remove("llama.attention.head_count_kv");
         w.add("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 2});
       }},
      {"widths of the feed-forward in an array",
       [](gguf_writer& w) {
         w.remove("llama.feed_forward_length");
         w.add("llama.feed_forward_length", std::vector<std::int32_t>{128, 128});
       }},
      {"alignment 64", [](gguf_writer& w) { w.alignment = 64; }},
      {"alignment 4096", [](gguf_writer& w) { w.alignment = 4096; }},
      {"keys of tools and of tomorrow", add_strange_keys},
      {"tensors in another order", [](gguf_writer& w) { std::reverse(w.tensors.begin(), w.tensors.end()); }},
  };
  const gguf_writer file = make_tiny_writer(plain());
  const logits expected = run(file);
  for (const change& one : changes) {
    gguf_writer changed = file;
    one.make(changed);
    BOOST_TEST(same_logits(run(changed), expected), one.name);
  }
}

BOOST_AUTO_TEST_CASE(fused_and_split) {
  tiny_model_options o = plain(engine::ggml_type::q4_0);
  o.biases = false;
  const gguf_writer file = make_tiny_writer(o);
  gguf_writer fused = file;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    fuse(fused, {layer + "attn_q.weight", layer + "attn_k.weight", layer + "attn_v.weight"},
         layer + "attn_qkv.weight");
  }
  BOOST_TEST(same_logits(run(fused), run(file)));
}

BOOST_AUTO_TEST_CASE(a_head_that_is_a_copy_of_the_embedding) {
  tiny_model_options o = plain();
  o.tied_output = true;
  const gguf_writer tied = make_tiny_writer(o);
  gguf_writer copied = tied;
  written_tensor head = *copied.find_tensor("token_embd.weight");
  head.name = "output.weight";
  copied.add_tensor(std::move(head));
  BOOST_TEST(same_logits(run(copied), run(tied)));
}

BOOST_AUTO_TEST_SUITE_END()
