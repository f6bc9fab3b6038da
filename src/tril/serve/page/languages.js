// Languages of the models: their names, their tags for the browser, and which can be chosen.

export const kAuto = "auto";

// A model's own code as a tag that the browser knows: "hin_Deva" is hin-Deva, "en_XX" is en.
export function tagOf(code) {
  if (!code) return "";
  const tag = code.replace(/^_+|_+$/g, "").replace(/_XX$/, "").replaceAll("_", "-");
  try {
    return Intl.getCanonicalLocales(tag)[0];
  } catch {
    return "";
  }
}

// `names` are those that the server gives.
export function nameOf(code, names = {}) {
  if (code === kAuto) return "Detect the language";
  if (names[code]) return names[code];
  const tag = tagOf(code);
  try {
    return tag ? new Intl.DisplayNames("en", {type: "language"}).of(tag) : code;
  } catch {
    return code;
  }
}

// By name. A model of several source languages can also detect which one it is.
export function sourcesOf(model) {
  const codes = sorted(model.source_languages, model);
  return codes.length > 1 ? [kAuto, ...codes] : codes;
}

export function targetsOf(model) {
  return sorted(model.target_languages, model);
}

function sorted(codes, {language_names: names}) {
  return [...codes].sort((a, b) => nameOf(a, names).localeCompare(nameOf(b, names), "en"));
}

// What `wanted` is among these codes, the model's default, or the first.
export function pick(codes, wanted, usual) {
  return [wanted, usual].find((code) => code && codes.includes(code)) ?? codes[0] ?? "";
}

// Where the other direction can be had: {model, source, target}, of the same model if it can, else
// of another; null if nowhere.
export function reverseOf(models, model, source, target) {
  if (!source || !target || source === kAuto || source === target) return null;
  const can = (other) => other.kind === "encoder-decoder" &&
      other.source_languages.includes(target) && other.target_languages.includes(source);
  const found = can(model) ? model : models.find(can);
  return found ? {model: found, source: target, target: source} : null;
}
