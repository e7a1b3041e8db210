// The bodies of the frames about weights, as bytes: for encode_frame() and decode_frame().
#pragma once

#include "net/failover/frame_fields.hpp"
#include "net/failover/weights_frames.hpp"

namespace orcd::net {

void write_body(frame_writer& to, const claim_frame& f);
void write_body(frame_writer& to, const grant_frame& f);
void write_body(frame_writer& to, const deny_frame& f);
void write_body(frame_writer& to, const put_frame& f);
void write_body(frame_writer& to, const commit_frame& f);
void write_body(frame_writer& to, const get_frame& f);
void write_body(frame_writer& to, const piece_frame& f);
void write_body(frame_writer& to, const done_frame& f);
void write_body(frame_writer& to, const ask_frame& f);
void write_body(frame_writer& to, const weights_state_frame& f);

[[nodiscard]] frame_problem read_body(frame_reader& from, claim_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, grant_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, deny_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, put_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, commit_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, get_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, piece_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, done_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, ask_frame& f);
[[nodiscard]] frame_problem read_body(frame_reader& from, weights_state_frame& f);

}  // namespace orcd::net
