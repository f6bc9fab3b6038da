#include "browser/picture_file.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/temp_folder.h"

namespace tril::testing {
namespace {

constexpr size_t kSignature = 8;
const std::string kKeyword = std::string("tril") + '\0';

uint32_t number_at(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes.at(at + i));
  return value;
}

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

// As the PNG specification defines it.
uint32_t checksum(const std::string& bytes) {
  uint32_t sum = ~0u;
  for (const char byte : bytes) {
    sum ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

std::string to_base64(const std::string& bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      text.push_back(i + j > bytes.size() ? '=' : digits[group >> (18 - 6 * j) & 63]);
    }
  }
  return text;
}

}  // namespace

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void sign_picture(const std::string& path, const std::string& subject) {
  std::string png = bytes_of(path);
  const size_t end = png.rfind("IEND");
  if (end == std::string::npos || end < kSignature + 4) throw std::runtime_error("no PNG: " + path);
  const std::string chunk = "tEXt" + kKeyword + subject;
  png.insert(end - 4, big_endian(static_cast<uint32_t>(chunk.size() - 4)) + chunk +
                          big_endian(checksum(chunk)));
  std::ofstream(path, std::ios::binary) << png;
}

std::string subject_of(const std::string& png) {
  for (size_t at = kSignature; at + 12 <= png.size();) {
    const size_t length = number_at(png, at);
    if (length > png.size() - at - 12) break;
    const std::string body = png.substr(at + 8, length);
    if (png.compare(at + 4, 4, "tEXt") == 0 && body.starts_with(kKeyword)) {
      return body.substr(kKeyword.size());
    }
    at += length + 12;
  }
  return "";
}

double difference(const std::string& png, const std::string& other, Browser& browser) {
  const TempFolder folder;
  const std::string path = folder / "compare.html";
  std::ofstream(path) << "<!doctype html><img src='data:image/png;base64," << to_base64(png)
                      << "'><img src='data:image/png;base64," << to_base64(other) << "'>";
  browser.open_file(path);
  return browser
      .run(R"(
        const images = [...document.images];
        return Promise.all(images.map((image) => image.decode())).then(() => {
          const [a, b] = images;
          const [width, height] = [a.naturalWidth, a.naturalHeight];
          if (b.naturalWidth !== width || b.naturalHeight !== height) return 1;
          const [x, y] = images.map((image) => {
            const pen = new OffscreenCanvas(width, height).getContext("2d");
            pen.drawImage(image, 0, 0);
            return pen.getImageData(0, 0, width, height).data;
          });
          const alike = (a, i, b, j) =>
              [0, 1, 2].every((part) => Math.abs(a[i + part] - b[j + part]) <= 24);
          const around = [-1, 0, 1].flatMap((down) => [-1, 0, 1].map((right) => 4 * (down * width + right)));
          const near = (a, i, b) => around.some((step) => b[i + step] !== undefined && alike(a, i, b, i + step));
          let off = 0;
          for (let i = 0; i < x.length; i += 4) {
            off += alike(x, i, y, i) || (near(x, i, y) && near(y, i, x)) ? 0 : 1;
          }
          return off / (width * height);
        });)")
      .get<double>();
}

}  // namespace tril::testing
