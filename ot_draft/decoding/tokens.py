"""A tokenizer from the files of a folder, by the packages `tokenizers` and `jinja2`: what transformers' would say, without its import."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["Tokenizer"]


class Encoded(dict[str, list[int]]):
    """Token ids under their name, also as an attribute."""

    @property
    def input_ids(self) -> list[int]:
        """The ids."""
        return self["input_ids"]


@dataclass(frozen=True)
class Tokenizer:
    """Called as transformers' tokenizers are, as far as decoding calls them."""

    backend: Any
    chat_template: str | None
    special: dict[str, str]

    @classmethod
    def of(cls, folder: Path) -> Tokenizer | None:
        """Return the tokenizer of a folder's files, or None if they need more than is implemented here."""
        settings, file = _json(folder / "tokenizer_config.json"), folder / "tokenizer.json"
        # Classes that add nothing to what tokenizer.json says, without settings that change it.
        plain = settings.get("tokenizer_class") in ("TokenizersBackend", "PreTrainedTokenizerFast") and not any(
            settings.get(name)
            for name in (
                "add_bos_token", "add_eos_token", "add_prefix_space", "clean_up_tokenization_spaces", "split_special_tokens",
            )
        )  # fmt: skip
        template = settings.get("chat_template")
        if not plain or not file.is_file() or not isinstance(template, str | None):
            return None
        from tokenizers import Tokenizer as Backend

        of_its_own = folder / "chat_template.jinja"
        template = of_its_own.read_text(encoding="utf-8") if of_its_own.is_file() else template
        special = {name: told for name, told in settings.items() if name.endswith("_token") and isinstance(told, str)}
        backend = Backend.from_file(str(file))
        backend.no_truncation()
        backend.no_padding()
        return cls(backend, template, special)

    def __call__(self, text: str, add_special_tokens: bool = True) -> Encoded:
        return Encoded(input_ids=self.backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def __len__(self) -> int:
        return int(self.backend.get_vocab_size())

    def get_vocab(self) -> dict[str, int]:
        """Ids by token."""
        vocabulary: dict[str, int] = self.backend.get_vocab()
        return vocabulary

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of token ids."""
        return str(self.backend.decode(list(map(int, tokens)), skip_special_tokens=skip_special_tokens))

    def apply_chat_template(
        self, messages: Sequence[dict[str, str]], tokenize: bool = False, add_generation_prompt: bool = False
    ) -> str:
        """Messages as one text; a list of ids is not given."""
        assert not tokenize and self.chat_template is not None
        given = {"tools": None, "documents": None, "add_generation_prompt": add_generation_prompt}
        return str(self._template.render(messages=messages, **given, **self.special))

    @cached_property
    def _template(self) -> Any:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(reason: str) -> None:
            raise TemplateError(reason)

        loops = ["jinja2.ext.loopcontrols"]
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=loops)
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
        environment.globals["raise_exception"] = refuse
        return environment.from_string(self.chat_template or "")


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
