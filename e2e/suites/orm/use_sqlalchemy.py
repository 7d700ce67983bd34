"""Ordinary use of SQLAlchemy: metadata, sessions, relationships, bulk inserts, reflection. Argument: the driver."""

import datetime as dt
import decimal
import sys

from sqlalchemy import (
    JSON, URL, Column, DateTime, ForeignKey, LargeBinary, Numeric, String, Table, create_engine, delete, event, func,
    insert, inspect, select, text, update,
)
from sqlalchemy.dialects.mysql import insert as mysql_insert
from sqlalchemy.orm import (
    DeclarativeBase, Mapped, Session, joinedload, mapped_column, relationship, selectinload, sessionmaker,
)

import common
from common import expect

DRIVER = sys.argv[1]
URL_ = URL.create(
    f"mysql+{DRIVER}", common.USER, common.PASSWORD, common.HOST, common.PORT, common.DATABASE,
    {"charset": "utf8mb4"},
)
ENGINE = create_engine(URL_, pool_size=common.THREADS, max_overflow=2, pool_pre_ping=True, pool_recycle=60)
MAKE = sessionmaker(ENGINE)


class Base(DeclarativeBase):
    pass


TAGGED = Table(
    "sa_tagged", Base.metadata,
    Column("book_id", ForeignKey("sa_book.id", ondelete="CASCADE"), primary_key=True),
    Column("tag_id", ForeignKey("sa_tag.id", ondelete="CASCADE"), primary_key=True),
)


class Author(Base):
    __tablename__ = "sa_author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), index=True)
    born: Mapped[dt.datetime | None] = mapped_column(DateTime)
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "sa_book"
    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("sa_author.id", ondelete="CASCADE"))
    title: Mapped[str] = mapped_column(String(120))
    price: Mapped[decimal.Decimal] = mapped_column(Numeric(10, 2))
    facts: Mapped[dict] = mapped_column(JSON)
    cover: Mapped[bytes] = mapped_column(LargeBinary(1000))
    author: Mapped[Author] = relationship(back_populates="books")
    tags: Mapped[list["Tag"]] = relationship(secondary=TAGGED)


class Tag(Base):
    __tablename__ = "sa_tag"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(60), unique=True)
    uses: Mapped[int] = mapped_column(default=0)


def create():
    Base.metadata.drop_all(ENGINE)
    Base.metadata.create_all(ENGINE)
    Base.metadata.create_all(ENGINE)


def reflect():
    inspector = inspect(ENGINE)
    expect("sa_book" in inspector.get_table_names(), True, "tables")
    expect(len(inspector.get_columns("sa_book")), 6, "columns")
    expect(inspector.get_foreign_keys("sa_book")[0]["referred_table"], "sa_author", "foreign key")
    expect(any(index["column_names"] == ["name"] for index in inspector.get_indexes("sa_author")), True, "index")


def write(thread, number):
    with MAKE.begin() as session:
        author = Author(name=f"author {thread}", born=dt.datetime(1900 + number, 1, 2, 3, 4, 5))
        author.books = [
            Book(title=f"book {thread} {number} {at}", price=decimal.Decimal("9.90") + at, facts={"at": at},
                 cover=bytes(range(at)))
            for at in range(5)
        ]
        session.add(author)
        session.flush()
        expect(all(book.id for book in author.books), True, "ids")
    with Session(ENGINE) as session:
        tags = [{"name": f"tag {thread} {number} {at}", "uses": at} for at in range(20)]
        session.execute(insert(Tag), tags)
        session.execute(
            mysql_insert(Tag).values(name=f"tag {thread}", uses=1).on_duplicate_key_update(uses=Tag.uses + 1)
        )
        session.commit()


def read(thread, number):
    with MAKE() as session:
        mine = select(Author).where(Author.name == f"author {thread}").order_by(Author.id.desc()).limit(1)
        author = session.scalars(mine.options(selectinload(Author.books))).one()
        expect(len(author.books), 5, "books by selectinload")
        first = session.scalars(
            select(Book).where(Book.author_id == author.id).options(joinedload(Book.author)).order_by(Book.id)
        ).first()
        expect(first.author.name, f"author {thread}", "author by joinedload")
        first.tags.append(session.scalars(select(Tag).where(Tag.name == f"tag {thread} {number} 3")).one())
        session.commit()
        session.refresh(first)
        expect([tag.uses for tag in first.tags], [3], "tags, loaded lazily")
        expect(first.facts, {"at": 0}, "JSON")
        session.rollback()


def change(thread, number):
    with MAKE.begin() as session:
        session.execute(update(Tag).where(Tag.name.like(f"tag {thread} {number} %")).values(uses=Tag.uses + 1))
        locked = select(Tag).where(Tag.name == f"tag {thread} {number} 1").with_for_update()
        expect(session.scalars(locked).one().uses, 2, "after an update")
        try:
            with session.begin_nested():
                session.add(Tag(name=f"tag {thread} {number} 1"))
                session.flush()
        except Exception as error:
            expect(type(error).__name__, "IntegrityError", "error")
        deleted = session.execute(delete(Tag).where(Tag.name == f"tag {thread} {number} 19"))
        expect(deleted.rowcount, 1, "deleted")
    session = MAKE()
    session.add(Author(name="never"))
    session.flush()
    session.rollback()
    session.close()


def plain(thread, number):
    with ENGINE.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        expect(connection.execute(text("SELECT :a + 1"), {"a": number}).scalar(), number + 1, "sum")
        count = connection.execute(select(func.count()).select_from(Author).where(Author.name == "never")).scalar()
        expect(count, 0, "rolled back")
    with ENGINE.connect().execution_options(isolation_level="READ COMMITTED") as connection:
        with connection.begin():
            rows = connection.execution_options(stream_results=True, max_row_buffer=50).execute(
                select(Tag).where(Tag.name.like(f"tag {thread} %"))
            )
            expect(sum(1 for _ in rows) >= 19, True, "streamed rows")


@event.listens_for(ENGINE, "checkout")
def checkout(*_):
    """Applications hang their own things here."""


def main():
    common.once("create", create)
    common.once("reflect", reflect)
    common.once("write", lambda: common.in_threads(write))
    common.once("rounds", lambda: common.in_threads(
        lambda thread, number: [part(thread, number) for part in (write_again, read, change, plain)]
    ))
    common.once("drop", lambda: Base.metadata.drop_all(ENGINE))
    ENGINE.dispose()


def write_again(thread, number):
    write(thread, number + common.ROUNDS)
    with MAKE.begin() as session:
        names = [f"tag {thread} {number} {at}" for at in range(20)]
        session.execute(delete(Tag).where(Tag.name.in_(names)))
        session.execute(insert(Tag), [{"name": name, "uses": at} for at, name in enumerate(names)])


main()
