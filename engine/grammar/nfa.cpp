#include "engine/grammar/nfa.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"

namespace orcd::engine::grammar {

node_id nfa::add() {
  compile_budget::work(1);
  nodes_.emplace_back();
  return static_cast<node_id>(nodes_.size() - 1);
}

void nfa::add_free(node_id from, node_id to) {
  free_.push_back({to, nodes_[from].free});
  nodes_[from].free = static_cast<std::uint32_t>(free_.size() - 1);
}

void nfa::add_byte(node_id from, unsigned char first, unsigned char last, node_id to) {
  bytes_.push_back({{first, last, to}, nodes_[from].byte});
  nodes_[from].byte = static_cast<std::uint32_t>(bytes_.size() - 1);
}

node_id nfa::emit(const expression& e, node_id from) {
  switch (e.what) {
    case expression::kind::literal: return emit_literal(e.text, from);
    case expression::kind::bytes: return emit_bytes(e.bytes, from);
    case expression::kind::sequence:
      compile_budget::work(1);  // also for a sequence without parts
      for (const expr& part : e.parts) from = emit(*part, from);
      return from;
    case expression::kind::choice: return emit_choice(e, from);
    case expression::kind::repeat: return emit_repeat(e, from);
    case expression::kind::list: return emit_list(e, from);
    case expression::kind::call: return emit_call(e, from);
    case expression::kind::bounded: return emit_bounded(e, from);
    case expression::kind::character:
    case expression::kind::boundary: break;
  }
  ORCD_ENSURE(false);  // they are parts of what is bounded alone
  return from;
}

node_id nfa::emit_literal(const std::string& text, node_id from) {
  compile_budget::work(1);
  for (const char c : text) {
    const node_id end = add();
    const auto byte = static_cast<unsigned char>(c);
    add_byte(from, byte, byte, end);
    from = end;
  }
  return from;
}

node_id nfa::emit_bytes(const byte_set& set, node_id from) {
  const node_id end = add();
  const byte_set others = ~set;
  for (std::size_t first = set._Find_first(); first < set.size();) {
    compile_budget::work(1);
    const std::size_t after = others._Find_next(first);
    add_byte(from, static_cast<unsigned char>(first), static_cast<unsigned char>(after - 1), end);
    first = after < set.size() ? set._Find_next(after) : set.size();
  }
  return end;
}

node_id nfa::emit_choice(const expression& e, node_id from) {
  const node_id end = add();
  for (const expr& part : e.parts) {
    const node_id start = add();
    add_free(from, start);
    add_free(emit(*part, start), end);
  }
  return end;
}

node_id nfa::emit_repeat(const expression& e, node_id from) {
  const expression& part = *e.parts.front();
  for (std::uint32_t i = 0; i < e.least; ++i) from = emit(part, from);
  if (e.most == unbounded) {
    const node_id loop = add();
    add_free(from, loop);
    add_free(emit(part, loop), loop);
    return loop;
  }
  const node_id end = add();
  add_free(from, end);
  for (std::uint32_t i = e.least; i < e.most; ++i) {
    const node_id start = add();
    add_free(from, start);
    from = emit(part, start);
    add_free(from, end);
  }
  return end;
}

// Part i begins at begins[i] or, if it is not required, is skipped from there to begins[i + 1]. After a part,
// a separator leads to where the next one begins.
node_id nfa::emit_list(const expression& e, node_id from) {
  if (e.least > 0 || e.most != unbounded) return emit_counted_list(e, from);
  const node_id end = add();
  const std::size_t count = e.parts.size();
  counted_vector<node_id> begins;
  for (std::size_t i = 0; i < count; ++i) begins.push_back(add());
  bool may_end = true;  // none of the parts after part i is required
  for (std::size_t i = count; i-- > 0;) {
    const bool last = i + 1 == count;
    const node_id after = emit(*e.parts[i], begins[i]);
    if (may_end) add_free(after, end);
    if (!last || e.open) {
      const node_id separated = emit(*e.between, after);
      add_free(separated, last ? begins[i] : begins[i + 1]);
    }
    if (!e.required[i] && !last) add_free(begins[i], begins[i + 1]);
    may_end = may_end && !e.required[i];
  }
  if (count > 0) add_free(from, begins.front());
  if (may_end) add_free(from, end);
  return end;
}

// Up to `most` more of the open last part.
void nfa::emit_further(const expression& e, node_id from, std::uint32_t most, node_id end) {
  if (most == unbounded) {
    const node_id loop = add();
    add_free(from, loop);
    const node_id after = emit(*e.parts.back(), emit(*e.between, loop));
    add_free(after, loop);
    add_free(after, end);
    return;
  }
  for (; most > 0; --most) {
    from = emit(*e.parts.back(), emit(*e.between, from));
    add_free(from, end);
  }
}

// As emit_list, with a beginning of each part for each number of parts before it. Numbers above the bound
// that matters are one.
node_id nfa::emit_counted_list(const expression& e, node_id from) {
  const node_id end = add();
  const auto count = static_cast<std::uint32_t>(e.parts.size());
  const bool bounded_above = e.most != unbounded;
  const std::uint32_t top = bounded_above ? e.most : e.least;
  const std::uint32_t levels = top + 1;
  counted_vector<node_id> begins;
  for (std::uint64_t i = 0; i < std::uint64_t{count} * levels; ++i) begins.push_back(add());
  const auto begin = [&](std::uint32_t part, std::uint32_t before) { return begins[part * levels + before]; };
  bool may_end = true;  // none of the parts after part i is required
  for (std::uint32_t i = count; i-- > 0;) {
    const bool last = i + 1 == count;
    for (std::uint32_t before = 0; before <= std::min(i, top); ++before) {
      const node_id start = begin(i, before);
      if (!e.required[i] && !last) add_free(start, begin(i + 1, before));
      if (bounded_above && before == top) continue;
      const std::uint32_t then = std::min(before + 1, top);
      const bool enough = before + 1 >= e.least;
      if (last && e.open && !enough) continue;  // it counts once
      const node_id after = emit(*e.parts[i], start);
      if (may_end && enough) add_free(after, end);
      if (!last) add_free(emit(*e.between, after), begin(i + 1, then));
      if (last && e.open) emit_further(e, after, bounded_above ? e.most - then : unbounded, end);
    }
    may_end = may_end && !e.required[i];
  }
  if (count > 0) add_free(from, begin(0, 0));
  if (may_end && e.least == 0) add_free(from, end);
  return end;
}

node_id nfa::emit_call(const expression& e, node_id from) {
  const node_id end = add();
  calls_.push_back({{e.rule, end, e.least, e.most}, nodes_[from].call});
  nodes_[from].call = static_cast<std::uint32_t>(calls_.size() - 1);
  return end;
}

nfa::places nfa::add_places() {
  return {add(), add(), add(), add()};
}

void nfa::add_free(const places& from, const places& to) {
  for (std::size_t i = 0; i < from.size(); ++i) add_free(from[i], to[i]);
}

node_id nfa::emit_bounded(const expression& e, node_id from) {
  const places begin = add_places();
  add_free(from, begin[0]);
  add_free(from, begin[1]);
  const places end = emit_between(*e.parts.front(), begin);
  const node_id after = add();
  add_free(end[0], after);
  add_free(end[2], after);
  return after;
}

nfa::places nfa::emit_between(const expression& e, places from) {
  switch (e.what) {
    case expression::kind::boundary: return emit_boundary(e.least != 0, from);
    case expression::kind::character: return emit_character(e, from);
    case expression::kind::repeat: return emit_repeated(e, from);
    case expression::kind::sequence:
      compile_budget::work(1);
      for (const expr& part : e.parts) from = emit_between(*part, from);
      return from;
    case expression::kind::choice: {
      const places end = add_places();
      for (const expr& part : e.parts) {
        const places start = add_places();
        add_free(from, start);
        add_free(emit_between(*part, start), end);
      }
      return end;
    }
    default: break;
  }
  ORCD_ENSURE(e.what == expression::kind::literal && e.text.empty());
  return from;
}

nfa::places nfa::emit_boundary(bool there, const places& from) {
  const places end = add_places();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool changes = (i / 2 != 0) != (i % 2 != 0);
    if (changes == there) add_free(from[i], end[i]);
  }
  return end;
}

nfa::places nfa::emit_character(const expression& e, const places& from) {
  const places end = add_places();
  for (const std::size_t word : {0U, 1U}) {
    const node_id start = add();
    add_free(from[word], start);
    add_free(from[2 + word], start);
    const node_id after = emit(*e.parts[1 - word], start);
    add_free(after, end[2 * word]);
    add_free(after, end[2 * word + 1]);
  }
  return end;
}

nfa::places nfa::emit_repeated(const expression& e, places from) {
  const expression& part = *e.parts.front();
  for (std::uint32_t i = 0; i < e.least; ++i) from = emit_between(part, from);
  const places end = add_places();
  add_free(from, end);
  if (e.most == unbounded) {
    add_free(emit_between(part, end), end);
    return end;
  }
  for (std::uint32_t i = e.least; i < e.most; ++i) {
    const places start = add_places();
    add_free(from, start);
    from = emit_between(part, start);
    add_free(from, end);
  }
  return end;
}

}  // namespace orcd::engine::grammar
