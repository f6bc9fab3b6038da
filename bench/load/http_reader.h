// Reads the answers to HTTP/1.1 requests from bytes that arrive in pieces of any size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace load {

// One answer after another of one connection; reset() before each request. Raises
// std::runtime_error for bytes that are no answer, after which the connection is of no use.
class HttpReader {
 public:
  void reset() { *this = HttpReader(); }

  // Takes the next bytes. Interim answers (1xx) are skipped.
  void feed(std::string_view bytes);
  // The server has closed the connection: the end of an answer that has no length, or an error.
  void end();

  bool complete() const { return part_ == Part::done; }
  // Whether any byte has arrived.
  bool begun() const { return begun_; }
  int status() const { return status_; }
  // As far as it has arrived.
  const std::string& body() const { return body_; }
  // Whether the connection may be used again, once the answer is complete.
  bool keeps_alive() const { return keeps_alive_; }

 private:
  enum class Part { status, headers, counted, chunk_size, chunk, chunk_end, trailers, rest, done };

  // Each takes what it can from the front of `bytes`.
  void take_line(std::string_view& bytes);
  void take_body(std::string_view& bytes);

  void read_line(std::string_view line);
  void read_status(std::string_view line);
  void read_header(std::string_view line);
  void end_headers();

  Part part_ = Part::status;
  std::string line_;    // the part of a line that has arrived
  size_t headers_ = 0;  // bytes of headers so far
  bool begun_ = false;
  bool keeps_alive_ = true;
  bool chunked_ = false;
  bool has_length_ = false;
  uint64_t left_ = 0;  // of the body or the chunk
  int status_ = 0;
  std::string body_;
};

}  // namespace load
