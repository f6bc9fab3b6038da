#include "http_reader.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "events.h"

namespace load {
namespace {

struct Case {
  const char* name;
  std::string bytes;
  int status;
  std::string body;
  bool keeps_alive;
};

const std::vector<Case> kAnswers = {
    {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
    {"no body", "HTTP/1.1 503 Busy\r\ncontent-length:0\r\nRetry-After: 1\r\n\r\n", 503, "", true},
    {"204", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
    {"close", "HTTP/1.1 429 Slow\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nno", 429, "no",
     false},
    {"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
    {"1.0 kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200,
     "ok", true},
    {"chunks",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, "
     "everyone\r\n0\r\n\r\n",
     200, "hello, everyone", true},
    {"trailers",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\r\r\n0\r\nA: b\r\n\r\n", 200, "\r",
     true},
    {"interim",
     "HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x",
     true},
    {"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, "x", true},
};

void expect(const HttpReader& reader, const Case& answer) {
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.status(), answer.status);
  EXPECT_EQ(reader.body(), answer.body);
  EXPECT_EQ(reader.keeps_alive(), answer.keeps_alive);
}

TEST(HttpReader, ReadsAnswersInOnePiece) {
  HttpReader reader;
  for (const Case& answer : kAnswers) {
    SCOPED_TRACE(answer.name);
    reader.reset();
    reader.feed(answer.bytes);
    expect(reader, answer);
  }
}

TEST(HttpReader, ReadsAnswersCutAnywhere) {
  for (const Case& answer : kAnswers) {
    SCOPED_TRACE(answer.name);
    for (size_t first = 0; first < answer.bytes.size(); ++first) {
      HttpReader reader;
      reader.feed(std::string_view(answer.bytes).substr(0, first));
      EXPECT_FALSE(reader.complete());
      reader.feed(std::string_view(answer.bytes).substr(first));
      expect(reader, answer);
    }
    HttpReader reader;
    for (const char& byte : answer.bytes) reader.feed({&byte, 1});
    expect(reader, answer);
  }
}

TEST(HttpReader, WithoutALengthTheConnectionsEndIsTheEnd) {
  HttpReader reader;
  reader.feed("HTTP/1.1 200 OK\r\n\r\nall ");
  reader.feed("of it");
  EXPECT_FALSE(reader.complete());
  reader.end();
  expect(reader, {"", "", 200, "all of it", false});
}

TEST(HttpReader, RefusesWhatIsNoAnswer) {
  for (const char* bytes : {
           "SSH-2.0-x\r\n",
           "HTTP/2.0 200 OK\r\n",
           "HTTP/1.1 2x0 OK\r\n",
           "HTTP/1.1 200 OK\r\nno colon\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
       }) {
    HttpReader reader;
    EXPECT_THROW(reader.feed(bytes), std::runtime_error) << bytes;
  }
  HttpReader endless;
  endless.feed("HTTP/1.1 200 OK\r\n");
  EXPECT_THROW(endless.feed("A: " + std::string(100'000, 'b')), std::runtime_error);
}

TEST(HttpReader, AnEndInTheMiddleIsAnError) {
  for (const char* bytes :
       {"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"}) {
    HttpReader reader;
    reader.feed(bytes);
    EXPECT_EQ(reader.begun(), *bytes != 0);
    EXPECT_THROW(reader.end(), std::runtime_error) << bytes;
  }
}

TEST(EventReader, ReadsEventsAsTheyArrive) {
  const std::string body =
      ": a comment\n\nevent: partial\ndata: one\n\nevent: ignored\n\ndata:two\r\ndata: "
      "lines\r\n\r\nevent: done\ndata: x\n\n";
  for (size_t step = 1; step < body.size(); ++step) {
    EventReader reader;
    std::string found;
    for (size_t size = step; size < body.size() + step; size += step) {
      while (const auto event = reader.next(std::string_view(body).substr(0, size))) {
        found += event->name + "=" + event->data + ";";
      }
    }
    EXPECT_EQ(found, "partial=one;message=two\nlines;done=x;");
  }
}

}  // namespace
}  // namespace load
