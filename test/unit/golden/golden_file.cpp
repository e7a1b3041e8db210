#include "test/unit/golden/golden_file.hpp"

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <type_traits>

namespace orcd::test {
namespace {

namespace json = boost::json;

std::filesystem::path golden_dir(const char* name = "golden") {
  return std::filesystem::path(ORCD_TEST_DATA) / name;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<float> read_floats(const std::filesystem::path& path, std::size_t count) {
  std::ifstream in(path, std::ios::binary);
  std::vector<float> values(count);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(float)));
  if (!in || in.peek() != std::ifstream::traits_type::eof())
    throw std::runtime_error(path.string() + " does not hold " + std::to_string(count) + " floats");
  return values;
}

template <class T>
std::vector<T> numbers(const json::value& array) {
  std::vector<T> out;
  for (const json::value& v : array.as_array()) out.push_back(v.to_number<T>());
  return out;
}

std::string text(const json::value& v) {
  return std::string(v.as_string());
}

engine::rope_scaling scaling_of(const std::string& name) {
  if (name == "none") return engine::rope_scaling::none;
  if (name == "linear") return engine::rope_scaling::linear;
  throw std::runtime_error("unknown scaling in a golden: " + name);
}

engine::rope_overrides overrides_of(const json::object& fields) {
  engine::rope_overrides out;
  for (const auto& [key, value] : fields) {
    if (key == "scaling")
      out.scaling = scaling_of(text(value));
    else if (key == "freq_scale")
      out.freq_scale = value.to_number<double>();
    else if (key == "round_correction_dims")
      out.round_correction_dims = value.as_bool();
    else
      throw std::runtime_error("unknown override in a golden: " + std::string(key));
  }
  return out;
}

golden_case case_of(const json::value& v, const std::filesystem::path& folder, std::uint32_t vocab) {
  golden_case out;
  out.name = text(v.at("name"));
  out.context = v.at("context").to_number<std::uint32_t>();
  out.rope = overrides_of(v.at("rope").as_object());
  out.tokens = numbers<engine::token_id>(v.at("tokens"));
  out.positions = numbers<std::uint32_t>(v.at("positions"));
  out.vocab = vocab;
  out.half_kv_effect = v.at("figures").at("f16_kv_against_f32").to_number<double>();
  out.rows = read_floats(folder / text(v.at("logits")), 2 * out.positions.size() * vocab);
  return out;
}

}  // namespace

const std::vector<std::string>& tiny_golden_names() {
  static const std::vector<std::string> names{"llama-freqs",
                                              "llama-tied",
                                              "qwen2-yarn",
                                              "phi3-plain",
                                              "phi3-longrope",
                                              "gpt-oss",
                                              "olmo2",
                                              "olmo3",
                                              "granite",
                                              "granite-biased",
                                              "granitemoe",
                                              "granitemoe-shared",
                                              "smollm3",
                                              "seed_oss",
                                              "internlm2",
                                              "ernie4_5",
                                              "exaone4",
                                              "exaone4-windows",
                                              "starcoder2",
                                              "qwen3moe",
                                              "qwen2moe",
                                              "gemma2",
                                              "gemma3",
                                              "mistral3",
                                              "command-r",
                                              "command-r-plus",
                                              "cohere2",
                                              "glm4",
                                              "glm4moe",
                                              "glm4moe-norms",
                                              "deepseek2",
                                              "deepseek2-v3",
                                              "deepseek2-glm",
                                              "deepseek2-groups",
                                              "deepseek2-groups-large",
                                              "deepseek2-v2",
                                              "glm4moe-groups",
                                              "ernie4_5-moe",
                                              "ernie4_5-moe-plain",
                                              "qwen3",
                                              "smollm3-untied",
                                              "seed_oss-tied",
                                              "internlm2-tied",
                                              "ernie4_5-untied",
                                              "starcoder2-untied",
                                              "qwen3moe-all",
                                              "gemma2-keys",
                                              "mistral3-plain",
                                              "command-r-keys",
                                              "glm4-tied",
                                              "gemma4",
                                              "gemma4-experts",
                                              "gemma4-inputs",
                                              "gemma4-odd"};
  return names;
}

const std::vector<std::string>& hybrid_golden_names() {
  static const std::vector<std::string> names{
      "qwen35",  "qwen35-one",    "qwen35moe",           "qwen3next",  "qwen3next-four", "lfm2",
      "lfm2moe", "granitehybrid", "granitehybrid-dense", "nemotron_h", "nemotron_h_moe"};
  return names;
}

std::vector<float> read_layer_inputs(const std::string& model_name, std::size_t count) {
  return read_floats(golden_dir("families") / (model_name + ".inputs.f32"), count);
}

tiny_golden read_tiny_golden(const std::string& model_name) {
  std::filesystem::path folder = golden_dir();
  if (!std::filesystem::exists(folder / (model_name + ".json"))) folder = golden_dir("families");
  const json::value root = json::parse(read_bytes(folder / (model_name + ".json")));
  tiny_golden out;
  out.model = folder / text(root.at("model"));
  for (const json::value& v : root.at("cases").as_array())
    out.cases.push_back(case_of(v, folder, root.at("vocab").to_number<std::uint32_t>()));
  return out;
}

greedy_golden read_greedy_golden(const std::string& file_name) {
  const json::value root = json::parse(read_bytes(golden_dir() / file_name));
  greedy_golden out{text(root.at("model")), text(root.at("sha256")), {}};
  for (const json::value& v : root.at("cases").as_array()) {
    greedy_case c;
    c.name = text(v.at("name"));
    c.text = text(v.at("text"));
    c.answer = text(v.at("answer"));
    c.prompt = numbers<engine::token_id>(v.at("prompt"));
    c.tokens = numbers<engine::token_id>(v.at("tokens"));
    c.second = numbers<engine::token_id>(v.at("second"));
    c.gap = numbers<float>(v.at("gap"));
    c.half_kv_tokens = numbers<engine::token_id>(v.at("kv16_tokens"));
    c.half_kv_gap = numbers<float>(v.at("kv16_gap"));
    c.half_kv_shift = v.at("kv16_shift").to_number<float>();
    out.cases.push_back(std::move(c));
  }
  return out;
}

}  // namespace orcd::test
