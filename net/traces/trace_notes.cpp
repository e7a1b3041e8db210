#include "net/traces/trace_notes.hpp"

#include "net/traces/request_trace.hpp"

namespace orcd::net {

void note_answer(connection& c, unsigned status) {
  c.note.status = status;
  if (c.trace != nullptr) c.trace->status = status;
}

void note_answer(connection& c, const reply& answer) {
  note_answer(c, answer.status);
  if (answer.failure) {
    c.note.failed = answer.failure->code;
    c.note.field = answer.failure->param;
  }
  if (c.trace != nullptr && answer.failure) c.trace->error = answer.failure->code;
}

}  // namespace orcd::net
