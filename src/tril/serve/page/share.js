// What is being looked at, in the address: #m=model&s=source&t=target&q=text. The part after # is
// not sent to any server, and whoever opens the address sees the same sentence.

const kLongest = 8000;  // characters of text; a longer one is left out

export function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const get = (name) => fields.get(name) ?? "";
  return {model: get("m"), source: get("s"), target: get("t"), text: get("q")};
}

export function writeAddress({model, source, target, text}) {
  const fields = new URLSearchParams();
  for (const [name, value] of [["m", model], ["s", source], ["t", target], ["q", text]])
    if (value && value.length <= kLongest) fields.set(name, value);
  const address = `#${fields}`;
  if (address === location.hash) return;
  try {
    history.replaceState(null, "", address);
  } catch {
    // A browser may refuse changes that come too often: the next one is written again.
  }
}
