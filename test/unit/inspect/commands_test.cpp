#include <sys/stat.h>

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <sstream>

#include "app/inspect/inspect.hpp"
#include "engine/base/prompt_tokens.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/plan/adapter_arena.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/support/tiny_model.hpp"

using namespace orcd;
using namespace orcd::test;

namespace {

struct outcome {
  int status = 0;
  std::string out;
  std::string err;
};

outcome run(const std::vector<std::string_view>& words, const std::string& input = {}) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  outcome o;
  o.status = app::run_inspect(words, in, out, err);
  o.out = out.str();
  o.err = err.str();
  return o;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct fixture {
  temporary_directory directory;
  std::string model = directory.file("tiny.gguf");
  fixture() {
    tiny_model_options o;
    o.matrix_type = engine::ggml_type::q8_0;
    write_file(model, make_tiny_model(o));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(commands, fixture)

BOOST_AUTO_TEST_CASE(info) {
  const outcome text = run({"info", model});
  BOOST_TEST(text.status == 0);
  BOOST_TEST(text.err == "");
  for (const char* part :
       {"GGUF version 3, alignment 32", "architecture  llama", "quant_kind    Q8_0", "2 layers, embedding 64",
        "tokenizer.ggml.merges", "string[", "blk.1.ffn_down.weight", "[128, 64]", "Q8_0"}) {
    BOOST_TEST(has(text.out, part), part);
  }
  const outcome machine = run({"info", model, "--json"});
  const boost::json::value value = boost::json::parse(machine.out);
  BOOST_TEST(value.at("servable").as_bool());
  BOOST_TEST(value.at("problem").is_null());
  BOOST_TEST(value.at("metadata").at("llama.embedding_length").at("value").to_number<int>() == 64);
  BOOST_TEST(value.at("tensors").as_array().size() == 21U);
  std::uint64_t sum = 0;
  for (const auto& share : value.at("types").as_array()) sum += share.at("bytes").to_number<std::uint64_t>();
  BOOST_TEST(sum == value.at("tensor_bytes").to_number<std::uint64_t>());
}

BOOST_AUTO_TEST_CASE(info_shows_files_that_cannot_be_served) {
  gguf_writer w;
  w.add("general.architecture", "mamba\x1B\xFF").add("x", std::vector<float>{1.0F});
  write_file(model, w.build());
  const outcome text = run({"info", model});
  BOOST_TEST(text.status == 0);
  BOOST_TEST(has(text.out, "not servable"));
  const boost::json::value value = boost::json::parse(run({"info", model, "--json"}).out);
  BOOST_TEST(!value.at("servable").as_bool());
  BOOST_TEST(has(std::string(value.at("problem").as_string()), "is not supported"));
}

BOOST_AUTO_TEST_CASE(tokenize_and_back) {
  const std::string text = "<|im_start|>user\nhello the world<|im_end|>\n";
  const outcome ids = run({"tokenize", model, "--text", text});
  BOOST_TEST(ids.status == 0);
  BOOST_TEST(ids.out.back() == '\n');
  BOOST_TEST(ids.out.find('\n') == ids.out.size() - 1);  // one line
  BOOST_TEST(run({"tokenize", model}, text).out == ids.out);
  const std::string file = directory.file("text");
  write_file(file, std::as_bytes(std::span(text)));
  BOOST_TEST(run({"tokenize", model, "--file", file}).out == ids.out);
  BOOST_TEST(run({"detokenize", model}, ids.out).out == text + "\n");
  BOOST_TEST(run({"detokenize", model, "--no-special"}, ids.out).out == "user\nhello the world\n\n");

  const outcome plain = run({"tokenize", model, "--no-special", "--text", text});
  BOOST_TEST(plain.out.size() > ids.out.size());  // the special tokens' text, letter by letter
  BOOST_TEST(run({"detokenize", model}, plain.out).out == text + "\n");

  const auto with = [this](std::string_view pre) {
    return run({"tokenize", model, "--json", "--text", "hello", "--tokenizer-pre", pre});
  };
  BOOST_TEST(has(with("viking").out, "gguf-bpe/viking"));
  BOOST_TEST(with("no-such").status == 1);
  BOOST_TEST(has(with("no-such").err, "--tokenizer-pre is 'no-such'"));

  const boost::json::value value =
      boost::json::parse(run({"tokenize", model, "--json", "--text", "hello"}).out);
  BOOST_TEST(value.at("count").to_number<std::size_t>() == value.at("ids").as_array().size());
  BOOST_TEST(value.at("pieces").as_array().size() == value.at("ids").as_array().size());
}

BOOST_AUTO_TEST_CASE(detokenize_ids) {
  BOOST_TEST(run({"detokenize", model, "104", "105"}).out == "hi\n");
  BOOST_TEST(run({"detokenize", model, "104,105"}).out == "hi\n");
  const boost::json::value value = boost::json::parse(run({"detokenize", model, "--json", "255", "104"}).out);
  BOOST_TEST(value.at("text").as_string() == "\xEF\xBF\xBDh");
  BOOST_TEST(value.at("bytes").to_number<int>() == 2);
  const outcome outside = run({"detokenize", model, "5000"});
  BOOST_TEST(outside.status == 1);
  BOOST_TEST(has(outside.err, "token id 5000 is outside the vocabulary of 304"));
  BOOST_TEST(run({"detokenize", model, "x"}).status == 1);
}

BOOST_AUTO_TEST_CASE(chat) {
  const auto file = [this](const std::string& name, std::string_view text) {
    const std::string path = directory.file(name);
    write_file(path, std::as_bytes(std::span(text)));
    return path;
  };
  const std::string_view text =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
      "{% if tools %}{{ tools|tojson }}{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::string from = file("chat.jinja", text);
  const std::string messages = file("messages.json", R"([{"role": "user", "content": "hi \u72d0"}])");
  BOOST_TEST(run({"chat", from, "--messages", messages}).out == "<user>hi \xE7\x8B\x90<assistant>\n");
  BOOST_TEST(run({"chat", from, "--messages", messages, "--no-generation-prompt"}).out ==
             "<user>hi \xE7\x8B\x90\n");
  const std::string tools = file("tools.json", R"([{"name":"f"}])");
  BOOST_TEST(run({"chat", from, "--messages", messages, "--tools", tools}).out ==
             "<user>hi \xE7\x8B\x90[{\"name\": \"f\"}]<assistant>\n");
  // An object of variables, from standard input.
  const char* variables = R"({"messages": [], "add_generation_prompt": false, "tools": [1]})";
  BOOST_TEST(run({"chat", from}, variables).out == "[1]\n");
  BOOST_TEST(run({"chat", from, "--add-generation-prompt"}, variables).out == "[1]<assistant>\n");
  const boost::json::value value = boost::json::parse(run({"chat", from, "--json"}, "[]").out);
  BOOST_TEST(value.at("prompt").as_string() == "<assistant>");
  BOOST_TEST(value.at("bytes").to_number<int>() == 11);

  gguf_writer w;
  w.add("general.architecture", "llama").add("tokenizer.chat_template", std::string(text));
  w.add("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "</s>"});
  w.add("tokenizer.ggml.eos_token_id", std::uint32_t{1});
  const std::string with_template = directory.file("chat.bin");  // known by its first bytes
  write_file(with_template, w.build());
  BOOST_TEST(run({"chat", with_template, "--messages", messages}).out ==
             "<user>hi \xE7\x8B\x90</s><assistant>\n");

  w.remove("tokenizer.chat_template");
  write_file(directory.file("base.gguf"), w.build());
  BOOST_TEST(run({"chat", directory.file("base.gguf"), "--messages", messages}).out ==
             "<|im_start|>user\nhi \xE7\x8B\x90<|im_end|>\n<|im_start|>assistant\n\n");

  const auto refusal = [&](std::initializer_list<std::string_view> words, const std::string& input) {
    const outcome o = run(words, input);
    BOOST_TEST(o.status == 1);
    BOOST_TEST(o.out == "");
    return o.err;
  };
  const std::string without = directory.file("without.gguf");
  write_file(without, gguf_writer().add("general.architecture", "llama").build());
  BOOST_TEST(has(refusal({"chat", without}, "[]"), "has no tokenizer.chat_template"));
  BOOST_TEST(has(refusal({"chat", from}, "[1,"), "standard input: is not JSON"));
  BOOST_TEST(has(refusal({"chat", from}, "3"), "must be a JSON array"));
  BOOST_TEST(has(refusal({"chat", from, "--tools", messages + "x"}, "[]"), "cannot be opened"));
  const std::string pipe = directory.file("pipe");
  BOOST_TEST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  BOOST_TEST(has(refusal({"chat", from, "--messages", pipe}, ""), "is a pipe; it must be a plain file"));
  BOOST_TEST(has(refusal({"tokenize", pipe}, ""), "is a pipe; it must be a plain file"));
  BOOST_TEST(has(refusal({"chat", file("bad.jinja", "a\n{{ 1 + }}")}, "[]"), "chat template, line 2"));
  BOOST_TEST(has(refusal({"chat", file("raise.jinja", "{{ raise_exception('Stop!') }}")}, "[]"), "Stop!"));
}

BOOST_AUTO_TEST_CASE(room_for_media_is_part_of_the_plan) {
  const std::string text = ORCD_TEST_DATA "/families/gemma3.gguf", other = ORCD_TEST_DATA "/media/qwen3.gguf";
  const std::string gemma = ORCD_TEST_DATA "/media/gemma3.gguf";
  const auto plan = [&](std::vector<std::string_view> more) {
    std::vector<std::string_view> words = {"plan", text, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return boost::json::parse(run(words).out);
  };
  const auto bytes = [](const boost::json::value& of, std::string_view name) {
    return of.at(name).to_number<std::uint64_t>();
  };
  const auto none = plan({}), one = plan({"--mmproj", gemma}),
             four = plan({"--mmproj", gemma, "--slots", "4"});
  BOOST_TEST(!none.as_object().contains("media_bytes"));
  const auto file = engine::gguf_file::open(gemma).value();
  BOOST_TEST(bytes(one, "projector_bytes") == file.tensor_bytes());
  BOOST_TEST(bytes(one, "media_bytes") > 64ULL << 20U);  // --media-cache-mb
  BOOST_TEST(bytes(four, "media_bytes") > bytes(one, "media_bytes"));
  BOOST_TEST(bytes(one, "total_bytes") - bytes(one, "workspace_bytes") ==
             bytes(none, "total_bytes") - bytes(none, "workspace_bytes") + bytes(one, "projector_bytes") +
                 bytes(one, "media_bytes"));
  BOOST_TEST(has(run({"plan", text, "--mmproj", gemma}).out, "\nmedia "));
  BOOST_TEST(has(run({"plan", text, "--mmproj", other}).err, "lines and columns"));
  const auto without = plan({"--vram-mib", "900"}).at("gpu");
  const auto gpu = plan({"--mmproj", gemma, "--vram-mib", "900"}).at("gpu");
  BOOST_TEST(!without.as_object().contains("media_bytes"));
  BOOST_TEST(bytes(gpu, "media_bytes") > 64ULL << 20U);
  BOOST_TEST(bytes(gpu, "required_bytes") == bytes(without, "required_bytes") + bytes(gpu, "media_bytes"));
  BOOST_TEST(run({"info", text, "--mmproj", gemma}).status == 2);
}

BOOST_AUTO_TEST_CASE(room_for_adapters_is_part_of_the_plan) {
  const auto plan = [&](std::vector<std::string_view> more) {
    std::vector<std::string_view> words = {"plan", model, "--json", "--ctx", "256", "--vram-mib", "600"};
    words.insert(words.end(), more.begin(), more.end());
    return boost::json::parse(run(words).out);
  };
  const auto bytes = [](const boost::json::value& of, std::string_view name) {
    return of.at(name).to_number<std::uint64_t>();
  };
  const auto none = plan({});
  const auto two = plan({"--max-loras", "2"});
  const auto high = plan({"--max-loras", "2", "--max-lora-rank", "32"});
  BOOST_TEST(!none.as_object().contains("adapters_bytes"));
  BOOST_TEST(!none.at("gpu").as_object().contains("adapters_bytes"));
  BOOST_TEST(bytes(two, "adapters_bytes") > 0U);
  BOOST_TEST(bytes(high, "adapters_bytes") > bytes(two, "adapters_bytes"));
  // A GPU keeps more beside the adapters than the host does, gate and up among it.
  const auto file = engine::gguf_file::open(model).value();
  const engine::model m = engine::load_model(file).value();
  const engine::adapter_room room{2, 16};
  const std::uint64_t on_gpu =
      gpu::adapter_arena(m, room, gpu::adapter_layout(m, room), 1, engine::prompt_tokens_most).bytes;
  BOOST_TEST(bytes(two.at("gpu"), "adapters_bytes") == on_gpu);
  BOOST_TEST(on_gpu > bytes(two, "adapters_bytes"));
  // So has the workspace, for steps in one kernel with adapters.
  const std::uint64_t work = bytes(two.at("gpu"), "workspace_bytes");
  BOOST_TEST(work > bytes(none.at("gpu"), "workspace_bytes"));
  BOOST_TEST(bytes(two.at("gpu"), "required_bytes") - bytes(none.at("gpu"), "required_bytes") ==
             on_gpu + work - bytes(none.at("gpu"), "workspace_bytes"));
  BOOST_TEST(has(run({"plan", model, "--max-loras", "2"}).out, "adapters"));
  BOOST_TEST(!has(run({"plan", model}).out, "adapters"));
  BOOST_TEST(run({"plan", model, "--max-loras", "65"}).status == 2);
  BOOST_TEST(run({"info", model, "--max-loras", "1"}).status == 2);
  const outcome alone = run({"plan", model, "--max-lora-rank", "8"});
  BOOST_TEST(alone.status == 2);
  BOOST_TEST(has(alone.err, "--max-lora-rank is for the adapters of --max-loras"));
}

BOOST_AUTO_TEST_CASE(plan) {
  const auto plan = [&](std::string_view ctx, std::string_view slots) {
    return boost::json::parse(run({"plan", model, "--json", "--ctx", ctx, "--slots", slots}).out);
  };
  const auto bytes = [](const boost::json::value& v, const char* key) {
    return v.at(key).to_number<std::uint64_t>();
  };
  const auto one = plan("256", "1");
  const auto four = plan("256", "4");
  BOOST_TEST(bytes(one, "kv_bytes_per_token") == 2U * 2 * 32 * 2);
  BOOST_TEST(bytes(one, "kv_bytes") >= 256U * bytes(one, "kv_bytes_per_token"));
  BOOST_TEST(bytes(four, "kv_bytes") == 4 * bytes(one, "kv_bytes"));
  BOOST_TEST(bytes(four, "weights_bytes") == bytes(one, "weights_bytes"));
  BOOST_TEST(bytes(one, "total_bytes") == bytes(one, "weights_bytes") + bytes(one, "kv_bytes") +
                                              bytes(one, "workspace_bytes") + bytes(one, "logits_bytes"));
  const boost::json::value small = boost::json::parse(
      run({"plan", model, "--json", "--ctx", "256", "--kv-type-k", "q8_0", "--kv-type-v", "bf16"}).out);
  BOOST_TEST(small.at("kv_type_k").as_string() == "q8_0");
  BOOST_TEST(small.at("kv_type_v").as_string() == "bf16");
  BOOST_TEST(bytes(small, "kv_bytes_per_token") == 2U * 2 * (34 + 32));  // heads of 16 fill half a block
  BOOST_TEST(bytes(small, "kv_bytes") == 256U * bytes(small, "kv_bytes_per_token"));
  const outcome text = run({"plan", model});
  BOOST_TEST(text.status == 0);
  BOOST_TEST(has(text.out, "1 slot(s) of 256 positions"));
  BOOST_TEST(has(text.out, "1 of 256 positions: jobs in all slots with 256 each at once"));
  BOOST_TEST(has(text.out, "workspace"));
}

BOOST_AUTO_TEST_CASE(layers_with_states_and_what_they_keep_are_told) {
  const std::string file = std::string(ORCD_TEST_DATA) + "/families/qwen35moe.gguf";
  const outcome info = run({"info", file});
  BOOST_TEST(info.status == 0);
  BOOST_TEST(has(info.out, "not loaded    its last 1 layer(s), which predict further tokens"));
  const outcome doctor = run({"doctor", file});
  for (const char* text :
       {"its last 1 layer(s) predict further tokens (multi-token prediction), and are not loaded",
        "1 of its layers attend, 1 have a recurrent state, 0 a short convolution"})
    BOOST_TEST(has(doctor.out, text), text);
  const auto plan = boost::json::parse(run({"plan", file, "--json", "--slots", "3"}).out);
  // Of a layer and slot: states, rows of keys, values and decays, inputs of the convolution; three with
  // drafts.
  const std::uint64_t states = plan.at("states_bytes").to_number<std::uint64_t>();
  const std::uint64_t each = 8 * 16 * 16 + 8 * (2 * 16 + 8 * 16 + 8 + 2 * 2 * 16 + 8 * 16);
  BOOST_TEST((states == 3 * 2 * 4 * each || states == 3 * 3 * 4 * each), states);
  BOOST_TEST(has(run({"plan", file}).out, "states"));
  const auto on_gpu = boost::json::parse(run({"plan", file, "--json", "--vram-mib", "1024"}).out).at("gpu");
  BOOST_TEST(on_gpu.at("states_bytes").to_number<std::uint64_t>() > 0U);
  BOOST_TEST(on_gpu.at("boundary_states").at("pages").to_number<std::uint64_t>() > 0U);
  BOOST_TEST(has(run({"plan", file, "--vram-mib", "1024"}).out, "recurrent states at boundaries"));
}

BOOST_AUTO_TEST_CASE(a_cache_for_fewer_positions_says_how_many_jobs_have_how_many) {
  const auto plan = [&](std::string_view kv_tokens, std::string_view slots) {
    return boost::json::parse(run({"plan", model, "--json", "--ctx", "256", "--slots", slots, "--kv-tokens",
                                   kv_tokens, "--vram-mib", "1024"})
                                  .out);
  };
  const auto number = [](const boost::json::value& v, const char* key) {
    return v.at(key).to_number<std::uint64_t>();
  };
  const auto few = plan("1025", "8");
  BOOST_TEST(number(few, "kv_pages") == 5U);
  BOOST_TEST(number(few, "positions_each") == 0U);
  BOOST_TEST(number(few, "whole_contexts") == 5U);
  BOOST_TEST(number(few, "kv_bytes") == 5 * 256 * number(few, "kv_bytes_per_token"));
  const auto all = plan("2048", "8");
  BOOST_TEST(number(all, "positions_each") == 256U);
  BOOST_TEST(number(all, "whole_contexts") == 8U);
  // The largest cache that fits does, and one page more does not.
  const std::uint64_t most = number(few.at("gpu"), "kv_tokens_max");
  BOOST_TEST(number(all.at("gpu"), "kv_tokens_max") == most);
  BOOST_TEST(plan(std::to_string(most), "8").at("gpu").at("fits").as_bool());
  BOOST_TEST(!plan(std::to_string(most + 1), "8").at("gpu").at("fits").as_bool());
  BOOST_TEST(run({"plan", model, "--ctx", "256", "--kv-tokens", "255"}).status != 0);
}

BOOST_AUTO_TEST_CASE(longer_steps_take_more_workspace) {
  const auto workspace = [&](std::string_view chunk) {
    const auto plan = boost::json::parse(
        run({"plan", model, "--json", "--ctx", "256", "--prefill-chunk", chunk, "--vram-mib", "1024"}).out);
    return plan.at("gpu").at("workspace_bytes").to_number<std::uint64_t>();
  };
  BOOST_TEST(workspace("1024") > workspace("512"));
  BOOST_TEST(run({"plan", model, "--prefill-chunk", "8193"}).status != 0);
}

BOOST_AUTO_TEST_CASE(a_gpu_is_sized_for_one_engine_and_for_two) {
  const auto gpu = [&](std::vector<std::string_view> more) {
    std::vector<std::string_view> words = {"plan", model, "--json", "--ctx", "256"};
    words.insert(words.end(), more.begin(), more.end());
    return boost::json::parse(run(words).out).at("gpu");
  };
  const auto bytes = [](const boost::json::value& v, const char* key) {
    return v.at(key).to_number<std::uint64_t>();
  };
  const auto one = gpu({"--vram-mib", "1024"});
  const std::uint64_t engine = bytes(one, "kv_bytes") + bytes(one, "logits_bytes") +
                               bytes(one, "drafts_bytes") + bytes(one, "workspace_bytes") +
                               bytes(one, "context_bytes");
  BOOST_TEST(bytes(one, "drafts_bytes") > 0U);
  const std::uint64_t weights = bytes(one, "weights_bytes"), reserve = bytes(one, "reserve_bytes");
  BOOST_TEST(weights > 0U);
  BOOST_TEST(bytes(one, "required_bytes") == engine + weights + reserve);
  BOOST_TEST(one.at("fits").as_bool());
  BOOST_TEST(bytes(one, "context_max") == 256U);  // the model's own
  const auto two = gpu({"--failover"});
  BOOST_TEST(bytes(two, "required_bytes") == 2 * engine + 2 * weights + reserve);
  BOOST_TEST(!two.as_object().contains("fits"));
  BOOST_TEST(bytes(gpu({"--failover", "--share-weights", "--vram-mib", "1024"}), "required_bytes") ==
             2 * engine + weights + reserve);
  const auto shared = gpu({"--failover", "--share-weights", "--vram-mib", "600"});
  BOOST_TEST(bytes(shared, "required_bytes") < 2 * engine + weights + reserve);  // with shorter steps
  BOOST_TEST(!shared.at("fits").as_bool());
  BOOST_TEST(bytes(shared, "context_max") == 0U);
  const outcome text = run({"plan", model, "--failover", "--vram-mib", "600"});
  BOOST_TEST(has(text.out, "2 copies of it"));
  BOOST_TEST(has(text.out, "does not fit"));
  BOOST_TEST(text.status == 3);
  BOOST_TEST(run({"plan", model, "--vram-mib", "4096"}).status == 0);
  BOOST_TEST(run({"plan", model, "--share-weights"}).status == 2);
  BOOST_TEST(run({"plan", model, "--vram-mib", "0"}).status == 2);
  for (const char* const bad : {"-1", "64", "x", ""}) {
    BOOST_TEST(run({"plan", model, "--gpu", bad}).status == 2);
  }
  const outcome both = run({"plan", model, "--gpu", "0", "--vram-mib", "600"});
  BOOST_TEST(both.status == 2);
  BOOST_TEST(has(both.err, "--gpu and --vram-mib exclude each other"));
  // With a GPU it is measured against that; without one, one line says so.
  const outcome here = run({"plan", model, "--json", "--gpu", "0"});
  if (here.status == 0) {
    const auto device = boost::json::parse(here.out).at("gpu");
    BOOST_TEST(device.at("fits").as_bool() ==
               (bytes(device, "required_bytes") <= bytes(device, "vram_bytes")));
    BOOST_TEST(!device.at("device").as_string().empty());
  } else {
    BOOST_TEST(here.status == 1);
    BOOST_TEST(has(here.err, "the memory of a GPU is not known: "));
    BOOST_TEST(std::count(here.err.begin(), here.err.end(), '\n') == 1);
  }
  BOOST_TEST(run({"info", model, "--failover"}).status == 2);
}

BOOST_AUTO_TEST_CASE(failures_have_one_line_and_a_status) {
  for (const char* command : {"info", "tokenize", "detokenize", "chat", "plan"}) {
    const outcome absent = run({command, directory.file("absent.gguf")});
    BOOST_TEST(absent.status == 1, command);
    BOOST_TEST(absent.out == "");
    BOOST_TEST(has(absent.err, "absent.gguf: cannot be opened"), command);
    BOOST_TEST(absent.err.find('\n') == absent.err.size() - 1, command);
  }
  BOOST_TEST(run({"tokenize", directory.file("absent.json")}).status == 1);
  BOOST_TEST(run({"tokenize", model, "--file", directory.file("absent")}).status == 1);
  const outcome usage = run({"frob"});
  BOOST_TEST(usage.status == 2);
  BOOST_TEST(has(usage.err, "unknown command 'frob'"));
  BOOST_TEST(has(usage.err, "usage:"));
  BOOST_TEST(run({"--help"}).status == 0);
  BOOST_TEST(has(run({"--help"}).out, "usage:"));
  BOOST_TEST(has(run({"--version"}).out, "worker-orcd-inspect "));
}

BOOST_AUTO_TEST_CASE(helpers) {
  BOOST_TEST(app::grouped(0) == "0");
  BOOST_TEST(app::grouped(999) == "999");
  BOOST_TEST(app::grouped(1000) == "1,000");
  BOOST_TEST(app::grouped(1234567) == "1,234,567");
}

BOOST_AUTO_TEST_SUITE_END()
