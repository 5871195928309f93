# docker build -t unmask . && docker run --rm -v "$PWD:/data" unmask prepare /data/corpus --tokenizer /data/vocab -o /data/shards
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/unmask \
 && /opt/unmask/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.11-slim
COPY --from=build /opt/unmask /opt/unmask
RUN useradd --create-home unmask
USER unmask
WORKDIR /data
ENV PATH=/opt/unmask/bin:$PATH
ENTRYPOINT ["unmask"]
CMD ["--help"]
